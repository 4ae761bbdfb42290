"""The methods that several experiments compare, under the names of the tables."""

from __future__ import annotations

from visl.experiments.design import Contender

IMPUTATION = (
    Contender("Majority vote", "majority"),
    Contender("Mean", "mean"),
    Contender("MICE", "mice"),
    Contender("MissForest", "missforest"),
    Contender("KNN", "knn"),
    Contender("Boosted trees", "boosted"),
    Contender("PVAE", "pvae"),
)
STRUCTURE = (
    Contender("Random edges", "random_edges"),
    Contender("PC", "pc"),
    Contender("GES", "ges"),
    Contender("NOTEARS (L)", "notears_linear"),
    Contender("NOTEARS (NL)", "notears_nonlinear"),
    Contender("DAG-GNN", "dag_gnn"),
    Contender("HillClimb", "hill_climb"),
    Contender("Tabu", "tabu"),
    Contender("MMHC", "mmhc"),
    Contender("DAGMA", "dagma"),
    Contender("DAGMA (NL)", "dagma_nonlinear"),
)


# Between single columns the graph is found before the first epoch: what gaps are filled by is not needed for it.
OUR_GRAPH = Contender("VISL, graph of the default preset", "visl", {"preset": "default", "epochs": 1})
OURS = tuple(Contender(f"VISL, {preset} preset", "visl", {"preset": preset}) for preset in ("default", "best"))


def visl_as_in(preset: str) -> tuple[Contender, ...]:
    """The paper's preset: as its text has it, with networks of its own for each variable, and with the further ReLU of
    the authors' code; and our own presets."""
    return (
        Contender("VISL", "visl", {"preset": preset}),
        Contender("VISL, own networks", "visl", {"preset": preset, "shared_networks": False}),
        Contender("VISL, authors' ReLU", "visl", {"preset": preset, "relu_messages": True}),
        *OURS,
    )

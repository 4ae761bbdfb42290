"""Structure methods of other libraries (`pip install 'visl[baselines]'`), for complete data, columns as nodes.

Each takes a `Problem` and a `Run` and gives an `Answer` with a structure. Its edges read [from, to]; what a method
leaves undirected, or finds directed both ways, has both. `probabilities`, where given, are strengths: they rank pairs.
Columns that are not all discrete count as continuous where a method knows only one of the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visl.experiments.methods.equivalence_search import Score, greedy_equivalence_search
from visl.experiments.methods.local_scores import DiscreteBic, GaussianBic
from visl.experiments.methods.structure_shared import BINS, Columns, Learned, learn_structure, module
from visl.experiments.problem import Answer, BoolArray, IntArray, Problem, Run, Structure

ALPHA = 0.05  # of the tests of PC
MMHC_ALPHA = 0.01
THRESHOLD = 0.3  # of the weights of the gradient methods, below which there is no edge: their authors' own
TABU_LIST, TABU_WORSE = 100, 10  # changes that are not undone; changes for the worse in a row before the search ends
EDGE_PROBABILITY = 0.05  # the edge prior of VISL


def pc(problem: Problem, run: Run) -> Answer:
    """The PC algorithm, stable form; G-square tests where every column is discrete, else Fisher's z."""
    discrete = _all_discrete(problem)
    test = "gsq" if discrete else "fisherz"

    def learn(columns: Columns) -> Learned:
        search = module("causallearn.search.ConstraintBased.PC").pc
        data = columns.levels() if discrete else columns.values
        found = search(data, alpha=ALPHA, indep_test=test, stable=True, show_progress=False)
        return Learned(_edges_of_end_marks(found.G.graph))

    return learn_structure("pc", problem, run, "causal-learn", learn, test=test, alpha=ALPHA)


def ges(problem: Problem, run: Run) -> Answer:
    """Greedy equivalence search with BIC: of conditional tables where every column is discrete, else Gaussian.

    Our own search: of the libraries, causal-learn's agrees with it but takes over ten minutes for 222 variables,
    gcastle's never deletes an edge, and pgmpy's copies the graph for every candidate.
    """
    discrete = _all_discrete(problem)

    def learn(columns: Columns) -> Learned:
        score: Score = DiscreteBic(columns.levels()) if discrete else GaussianBic(columns.values)
        return Learned(greedy_equivalence_search(score, len(columns.is_level)))

    score_name = "discrete BIC" if discrete else "Gaussian BIC"
    return learn_structure("ges", problem, run, "visl", learn, score=score_name)


def hill_climb(problem: Problem, run: Run) -> Answer:
    """Greedy search over DAGs: adds, removes and turns edges while BIC rises."""

    def learn(columns: Columns) -> Learned:
        learner = _bayes_net_learner(columns.levels())
        learner.useGreedyHillClimbing()
        return Learned(_edges_of_pairs(learner.learnDAG().arcs(), len(columns.is_level)))

    return learn_structure("hill_climb", problem, run, "pyagrum", learn, **_BINNED_BIC)


def tabu(problem: Problem, run: Run) -> Answer:
    """As `hill_climb`, but may go on through worse graphs, with a list of changes that are not undone."""

    def learn(columns: Columns) -> Learned:
        learner = _bayes_net_learner(columns.levels())
        learner.useLocalSearchWithTabuList(TABU_LIST, TABU_WORSE)
        return Learned(_edges_of_pairs(learner.learnDAG().arcs(), len(columns.is_level)))

    settings = {**_BINNED_BIC, "tabu_list": TABU_LIST, "worse_in_a_row": TABU_WORSE}
    return learn_structure("tabu", problem, run, "pyagrum", learn, **settings)


def mmhc(problem: Problem, run: Run) -> Answer:
    """Max-min hill climbing. Its time doubles with every variable: hopeless beyond a dozen."""

    def learn(columns: Columns) -> Learned:
        return Learned(_max_min_hill_climb(columns.levels()))

    return learn_structure("mmhc", problem, run, "pgmpy", learn, test="chi-square", alpha=MMHC_ALPHA, **_BINNED_BIC)


def notears_linear(problem: Problem, run: Run) -> Answer:
    """NOTEARS, least squares; columns are standardised, binary ones too (its logistic loss knows no intercept)."""
    settings: dict[str, Any] = {"lambda1": 0.1, "w_threshold": THRESHOLD, **_notears_steps(run)}

    def learn(columns: Columns) -> Learned:
        learner = module("castle.algorithms").Notears(loss_type="l2", **settings)
        learner.learn(columns.standardised())
        return _of_weights(learner.weight_causal_matrix)

    return learn_structure("notears_linear", problem, run, "gcastle", learn, loss="l2", **settings)


def notears_nonlinear(problem: Problem, run: Run) -> Answer:
    """NOTEARS with a network of one hidden layer for each column."""
    settings: dict[str, Any] = {"lambda1": 0.01, "lambda2": 0.01, **_notears_steps(run)}
    settings |= {"w_threshold": THRESHOLD, "hidden_layers": (10, 1)}

    def learn(columns: Columns) -> Learned:
        algorithms = module("castle.algorithms")
        _double()
        learner = algorithms.NotearsNonlinear(model_type="mlp", device_type=_castle_device(run), **settings)
        learner.learn(columns.standardised())
        return _of_weights(learner.weight_causal_matrix)

    return learn_structure("notears_nonlinear", problem, run, "gcastle", learn, loss="l2", **settings)


def dag_gnn(problem: Problem, run: Run) -> Answer:
    """DAG-GNN: an autoencoder with the graph's weights between code and data, Gaussian whatever the columns are."""
    settings: dict[str, Any] = {"epochs": run.epochs or 300, "k_max_iter": min(run.epochs or 100, 100)}
    settings |= {"graph_threshold": THRESHOLD, "batch_size": 100, "lr": 3e-3}

    def learn(columns: Columns) -> Learned:
        algorithms = module("castle.algorithms")
        _double()
        learner = algorithms.DAG_GNN(
            seed=run.seed % 2**32, device_type=_castle_device(run), device_ids=None, **settings
        )
        learner.learn(columns.standardised())
        weights = np.sinh(3 * learner.encoder.adj_A.detach().cpu().numpy())  # the learner keeps only what passes
        return Learned(np.asarray(learner.causal_matrix) != 0, np.abs(weights))

    return learn_structure("dag_gnn", problem, run, "gcastle", learn, **settings)


def dagma(problem: Problem, run: Run) -> Answer:
    """DAGMA, linear, least squares; columns are standardised."""
    settings: dict[str, Any] = {"lambda1": 0.03, "T": 5, **_dagma_steps(run, 30_000, 60_000)}

    def learn(columns: Columns) -> Learned:
        learner = module("dagma.linear").DagmaLinear(loss_type="l2")
        # s is given because the library changes its own default list; the threshold is ours, to keep all weights.
        weights = learner.fit(columns.standardised(), s=[1.0, 0.9, 0.8, 0.7, 0.6], w_threshold=0.0, **settings)
        return _of_weights(weights)

    return learn_structure("dagma", problem, run, "dagma", learn, loss="l2", w_threshold=THRESHOLD, **settings)


def dagma_nonlinear(problem: Problem, run: Run) -> Answer:
    """DAGMA with a network of one hidden layer of ten for each column."""
    settings: dict[str, Any] = {"lambda1": 0.02, "lambda2": 0.005, "T": 4, **_dagma_steps(run, 50_000, 80_000)}

    def learn(columns: Columns) -> Learned:
        nonlinear = module("dagma.nonlinear")
        network = nonlinear.DagmaMLP(dims=[len(columns.is_level), 10, 1], bias=True)
        weights = nonlinear.DagmaNonlinear(network).fit(columns.standardised(), w_threshold=0.0, **settings)
        return _of_weights(weights)

    return learn_structure("dagma_nonlinear", problem, run, "dagma", learn, w_threshold=THRESHOLD, **settings)


def random_edges(problem: Problem, run: Run) -> Answer:
    """A random order of the groups, and each edge along it with the prior probability of VISL. Never sees the data."""
    rng, M = np.random.default_rng(run.seed), problem.n_groups
    place = rng.permutation(M)
    edges = (place[:, None] < place[None, :]) & (rng.random((M, M)) < EDGE_PROBABILITY)
    return Answer(structure=Structure(edges), settings={"library": "numpy", "edge_probability": EDGE_PROBABILITY})


_BINNED_BIC: dict[str, object] = {"score": "discrete BIC", "bins_of_continuous_columns": BINS}


def _all_discrete(problem: Problem) -> bool:
    return all(kind != "continuous" for kind in problem.kinds)


def _edges_of_end_marks(marks: IntArray) -> BoolArray:
    """causal-learn writes the mark at j's end of an edge i, j in [j, i]: 1 an arrow head, -1 a tail, 0 no edge."""
    joined = (marks != 0) & (marks.T != 0)
    tail_at_both = (marks == -1) & (marks.T == -1)
    return joined & ((marks.T == 1) | tail_at_both)


def _edges_of_pairs(pairs: Any, n_nodes: int) -> BoolArray:
    edges = np.zeros((n_nodes, n_nodes), dtype=bool)
    for start, end in pairs:
        edges[start, end] = True
    return edges


def _of_weights(weights: Any) -> Learned:
    strengths = np.abs(np.asarray(weights, dtype=np.float64))
    return Learned(strengths > THRESHOLD, strengths)


def _bayes_net_learner(levels: IntArray) -> Any:
    """With BIC. Node i of the library is column i, because the template adds them in this order."""
    pyagrum, pandas = module("pyagrum"), module("pandas")
    template = pyagrum.BayesNet()
    for column, n_levels in enumerate(levels.max(0) + 1):
        template.add(pyagrum.LabelizedVariable(f"x{column}", "", [str(level) for level in range(n_levels)]))
    names = [f"x{column}" for column in range(levels.shape[1])]
    learner = pyagrum.BNLearner(pandas.DataFrame(levels.astype(str), columns=names), template)
    learner.useScoreBIC()
    return learner


def _max_min_hill_climb(levels: IntArray) -> BoolArray:
    """Both halves of pgmpy's MMHC by hand: its own `estimate` forbids only one direction of the pairs outside the
    skeleton, so that the search may join them the other way round."""
    estimators, pandas = module("pgmpy.estimators"), module("pandas")
    data = pandas.DataFrame(levels).astype(
        "category"
    )  # whole numbers as names: the order of strings in a set changes between processes
    skeleton = estimators.MmhcEstimator(data).mmpc(MMHC_ALPHA)
    allowed = {frozenset(edge) for edge in skeleton.edges()}
    forbidden = [(i, j) for i in data for j in data if i != j and frozenset((i, j)) not in allowed]
    search = estimators.HillClimbSearch(data)
    knowledge = estimators.ExpertKnowledge(forbidden_edges=forbidden)
    found = search.estimate(scoring_method="bic-d", expert_knowledge=knowledge, tabu_length=10, show_progress=False)
    return _edges_of_pairs(found.edges(), levels.shape[1])


def _notears_steps(run: Run) -> dict[str, float]:
    """Rounds, and where the weight of the constraint, ten times as large after a round without progress, ends."""
    return {"max_iter": run.epochs or 100, "rho_max": 10.0 ** min(run.epochs or 16, 16)}


def _dagma_steps(run: Run, warm: int, last: int) -> dict[str, int]:
    """Of each stage but the last, and of the last."""
    return {"warm_iter": run.epochs or warm, "max_iter": 2 * run.epochs if run.epochs else last}


def _castle_device(run: Run) -> str:
    return "cpu" if run.device == "cpu" else "gpu"


def _double() -> None:
    """gcastle sets this once, when imported, and needs it at every call."""
    torch = module("torch")
    torch.set_default_dtype(torch.float64)

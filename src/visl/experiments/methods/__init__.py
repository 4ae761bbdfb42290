"""What is compared. Each method is a function from a Problem to an Answer, in a module that is imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from visl.experiments.problem import Answer

METHODS = {  # name -> module of this package
    "visl": "side_by_side",
    "majority": "imputation",
    "mean": "imputation",
    "mice": "imputation",
    "missforest": "imputation",
    "knn": "imputation",
    "boosted": "imputation",
    "pvae": "pvae",
    "pc": "structure",
    "ges": "structure",
    "notears_linear": "structure",
    "notears_nonlinear": "structure",
    "dag_gnn": "structure",
    "dagma": "structure",
    "dagma_nonlinear": "structure",
    "hill_climb": "structure",
    "tabu": "structure",
    "mmhc": "structure",
    "random_edges": "structure",
    "dag_gnn_groups": "dag_gnn_groups",
}

# Optional libraries, of the extra `baselines`, that methods need.
LIBRARIES = {
    "pc": "causallearn",
    "notears_linear": "castle",
    "notears_nonlinear": "castle",
    "dag_gnn": "castle",
    "dagma": "dagma",
    "dagma_nonlinear": "dagma",
    "hill_climb": "pyagrum",
    "tabu": "pyagrum",
    "mmhc": "pgmpy",
}
INSTALL = "pip install 'visl[baselines]'"


def imputes(name: str) -> bool:
    return METHODS[name] not in ("structure", "dag_gnn_groups")


def finds_structure(name: str) -> bool:
    return METHODS[name] not in ("imputation", "pvae")


def is_installed(name: str) -> bool:
    return name not in LIBRARIES or find_spec(LIBRARIES[name]) is not None


def find_method(name: str) -> Callable[..., Answer]:
    method: Callable[..., Answer] = getattr(import_module(f"{__name__}.{METHODS[name]}"), name)
    return method

"""What is compared. Each method is a function from a Problem to an Answer, in a module that is imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from visl.experiments.problem import Answer


@dataclass(frozen=True)
class MethodInfo:
    module: str  # of this package; the method is the function of its own name in it
    library: str | None = None  # that it needs, of the extra `baselines`
    imputes: bool = False
    finds_structure: bool = False
    on_gpu: bool = False  # whether it can use one


def _imputer(module: str, *, on_gpu: bool = False) -> MethodInfo:
    return MethodInfo(module, imputes=True, on_gpu=on_gpu)


def _finder(library: str | None = None, *, module: str = "structure", on_gpu: bool = False) -> MethodInfo:
    return MethodInfo(module, library, finds_structure=True, on_gpu=on_gpu)


METHODS = {
    "visl": MethodInfo("side_by_side", imputes=True, finds_structure=True, on_gpu=True),
    "majority": _imputer("imputation"),
    "mean": _imputer("imputation"),
    "mice": _imputer("imputation"),
    "missforest": _imputer("imputation"),
    "knn": _imputer("imputation"),
    "boosted": _imputer("imputation"),
    "pvae": _imputer("pvae", on_gpu=True),
    "pc": _finder("causallearn"),
    "ges": _finder(),
    "notears_linear": _finder("castle"),
    "notears_nonlinear": _finder("castle", on_gpu=True),
    "dag_gnn": _finder("castle", on_gpu=True),
    "dagma": _finder("dagma"),
    "dagma_nonlinear": _finder("dagma"),
    "hill_climb": _finder("pyagrum"),
    "tabu": _finder("pyagrum"),
    "mmhc": _finder("pgmpy"),
    "random_edges": _finder(),
    "dag_gnn_groups": _finder(module="dag_gnn_groups", on_gpu=True),
}
INSTALL = "pip install 'visl[baselines]'"


def imputes(name: str) -> bool:
    return METHODS[name].imputes


def finds_structure(name: str) -> bool:
    return METHODS[name].finds_structure


def is_installed(name: str) -> bool:
    library = METHODS[name].library
    return library is None or find_spec(library) is not None


def find_method(name: str) -> Callable[..., Answer]:
    method: Callable[..., Answer] = getattr(import_module(f"{__name__}.{METHODS[name].module}"), name)
    return method

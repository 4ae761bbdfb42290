"""The paper's experiments, and those beside them: every method on every data set, one row a cell."""

from __future__ import annotations

from importlib import import_module

from visl.errors import InputError
from visl.experiments.design import Experiment

# In the order of the page.
NAMES = ("synthetic", "gaps", "rounds", "neuropathic", "eedi", "scaling", "mixed", "sachs", "networks", "ablation")


def find_experiment(name: str) -> Experiment:
    if name not in NAMES:
        raise InputError(f"there is no experiment {name!r}: use one of {', '.join(NAMES)}")
    experiment: Experiment = import_module(f"{__name__}.{name}").EXPERIMENT
    return experiment

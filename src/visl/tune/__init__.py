"""Bayesian optimisation of the model's settings, by Optuna, on held-out cells."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from visl.errors import InputError

if TYPE_CHECKING:
    from visl.tune.space import Choices as Choices
    from visl.tune.space import Range as Range
    from visl.tune.tuner import Tuner as Tuner
    from visl.tune.tuner import Watcher as Watcher
    from visl.tune.tuner import tune as tune

# Loaded when first used, so that what is missing is said in words.
_HOMES = {"Choices": "space", "Range": "space", "Tuner": "tuner", "Watcher": "tuner", "tune": "tuner"}
__all__ = [*_HOMES]  # noqa: PLE0604


def check_installed() -> None:
    if find_spec("optuna") is None:
        raise InputError("tuning needs the package Optuna: install it with pip install 'visl[tune]'")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'visl.tune' has no attribute {name!r}")
    check_installed()
    return getattr(importlib.import_module(f"visl.tune.{_HOMES[name]}"), name)

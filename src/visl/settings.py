"""Settings as users give them, checked and made plain."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from visl.config import Config, build_config
from visl.data.plain import plain
from visl.errors import InputError

MAX_SEED = 2**31 - 1


def config_of(preset: Any, settings: dict[str, Any]) -> Config:
    if preset is not None and not isinstance(preset, str):
        raise InputError(f"preset is {preset!r}: give the name of one, such as 'default'")
    return build_config(preset, **{name: plain(value) for name, value in settings.items()})


def check_threshold(threshold: Any) -> None:
    if not _is_number(threshold) or not 0 <= threshold < 1:
        raise InputError(f"edge_threshold is {threshold!r}: give a number from 0 to below 1")


def check_share(name: str, share: Any) -> float:
    if not _is_number(share) or not 0 < share < 1:
        raise InputError(f"{name} is {share!r}: give a share between 0 and 1, such as 0.5")
    return float(share)


def seed_of(random_state: Any) -> int:
    """One seed for everything, drawn from what the user gave; None takes a new one."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MAX_SEED))
    try:
        return int(check_random_state(random_state).randint(MAX_SEED))
    except (TypeError, ValueError) as error:
        raise _bad_seed(random_state) from error


def generator_of(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise _bad_seed(random_state) from error


def kept_seed(random_state: Any) -> int | None:
    """What a file can keep of a random state."""
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    return int(random_state) if is_seed else None


def _bad_seed(random_state: Any) -> InputError:
    return InputError(
        f"random_state is {random_state!r}: give a whole number from 0 to {2**32 - 1}, a random state of NumPy, or None"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)

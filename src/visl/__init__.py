"""visl: fill the gaps of a table and learn, with probabilities, how groups of its columns depend on each other."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visl.data.long import LongLog as LongLog
    from visl.data.long import long_from_frame as long_from_frame
    from visl.data.long import read_long as read_long
    from visl.data.simulate_education import simulate_education as simulate_education
    from visl.data.simulate_synthetic import simulate_synthetic as simulate_synthetic
    from visl.errors import InputError as InputError
    from visl.estimator import VISL as VISL

__version__ = "0.1.0"

# Loaded when first used, so that the training core imports with torch and NumPy alone.
_HOMES = {
    "VISL": "visl.estimator",
    "InputError": "visl.errors",
    "LongLog": "visl.data.long",
    "read_long": "visl.data.long",
    "long_from_frame": "visl.data.long",
    "simulate_education": "visl.data.simulate_education",
    "simulate_synthetic": "visl.data.simulate_synthetic",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'visl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)

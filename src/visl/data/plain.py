"""Values as plain Python ones, which every file format knows."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """NumPy's numbers and text as Python's; arrays, ranges and tuples as lists; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | range | list | tuple):
        return [plain(entry) for entry in value]
    return value

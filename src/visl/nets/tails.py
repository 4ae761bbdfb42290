"""Columns with a long tail, made symmetric for exact fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visl.nets.layout import Cells

NUMBERS = {"side": 0.0, "offset": 0.0, "unit": 1.0, "centre": 0.0, "spread": 1.0}  # of a column that stays as it is
Array = TypeVar("Array", Tensor, NDArray[np.float64])


class LongTails(nn.Module):
    """x -> (s asinh((s x + a) / b) - c) / w for a column with a tail above (s = 1) or below (s = -1), x else (s = 0).

    What multiplies rather than adds (concentrations, counts, prices) has such columns, and effects add up on their
    logarithms; asinh is one, but for values near 0. `visl.standardising` finds the numbers.
    """

    def __init__(self, n_members: int, n_columns: int) -> None:
        super().__init__()
        for name, start in NUMBERS.items():
            self.register_buffer(name, torch.full((n_members, n_columns), start))

    def numbers(self) -> list[Tensor]:
        """s, a, b, c and w, each (K, D)"""
        return [getattr(self, name) for name in NUMBERS]

    def forward(self, cells: Cells) -> Cells:
        return replace(cells, value=drawn_in(cells.value, *(x.flatten()[cells.column] for x in self.numbers())))


def drawn_in(x: Array, side: Array, offset: Array, unit: Array, centre: Array, spread: Array) -> Array:
    library = torch if isinstance(x, Tensor) else np
    return (library.where(side == 0, x, side * library.arcsinh((side * x + offset) / unit)) - centre) / spread


def drawn_out(x: NDArray[np.float64], side: float, offset: float, unit: float, centre: float, spread: float) -> NDArray:
    """The values of one column whose `drawn_in` are x."""
    x = x * spread + centre
    return x if side == 0 else side * (unit * np.sinh(side * x) - offset)

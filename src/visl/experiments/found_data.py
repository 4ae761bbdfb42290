"""Public data that a user has downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visl.errors import InputError
from visl.experiments.problem import FloatArray

if TYPE_CHECKING:
    import pandas as pd


def has(data: Path, name: str, file: str) -> bool:
    return any((folder / file).is_file() for folder in _places(data, name))


def folder_with(data: Path | None, name: str, file: str, download: str) -> Path:
    """The folder that holds the file: DIR/name, or DIR itself, or DIR/data as a zip may unpack it."""
    if data is None:
        raise InputError(f"this experiment needs {download}")
    for folder in _places(data, name):
        if (folder / file).is_file():
            return folder
    raise InputError(f"there is no {file} in {data / name} nor in {data}. This experiment needs {download}")


def _places(data: Path, name: str) -> tuple[Path, ...]:
    return data / name, data, data / name / "data", data / "data"


def read_values(file: Path, names: Sequence[str]) -> FloatArray:
    """A table of numbers with these names as header; empty cells are gaps.  (rows, columns)"""
    table = _read_numbers(file)
    if list(table.columns) != list(names):
        raise InputError(f"{file} has other names across than the graph has: give the same ones in the same order")
    return table.to_numpy()


def read_matrix(file: Path) -> tuple[FloatArray, list[str]]:
    """A square table with names across and down, and these names."""
    matrix = _read_numbers(file, index_col=0)
    names = list(matrix.columns)
    if list(map(str, matrix.index)) != names:
        raise InputError(f"{file} has other names down than across: give a square table, rows = from")
    return matrix.to_numpy(), names


def read_table(file: Path, *, has_header: bool = True) -> pd.DataFrame:
    """A table of numbers and words."""
    import pandas as pd

    try:
        return pd.read_csv(file, header=0 if has_header else None)
    except FileNotFoundError:
        raise InputError(f"there is no {file}: the download is not complete") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{file} does not hold a table ({error}): download it again") from error


def _read_numbers(file: Path, **how: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(file, **how).astype(np.float64)
    except FileNotFoundError:
        raise InputError(f"there is no {file}: the download is not complete") from None
    except ValueError as error:
        raise InputError(f"{file} does not hold a table of numbers ({error}): download it again") from error

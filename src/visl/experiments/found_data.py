"""Public data that a user has downloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from visl.errors import InputError
from visl.experiments.problem import FloatArray


def folder_with(data: Path | None, name: str, file: str, download: str) -> Path:
    """The folder that holds the file: DIR/name, or DIR itself, or DIR/data as a zip may unpack it."""
    if data is None:
        raise InputError(f"this experiment needs {download}")
    for folder in (data / name, data, data / name / "data", data / "data"):
        if (folder / file).is_file():
            return folder
    raise InputError(f"there is no {file} in {data / name} nor in {data}. This experiment needs {download}")


def read_values(file: Path) -> FloatArray:
    """A table of numbers with a header; empty cells are gaps.  (rows, columns)"""
    import pandas as pd

    try:
        return pd.read_csv(file).to_numpy(np.float64)
    except FileNotFoundError:
        raise InputError(f"there is no {file}: the download is not complete") from None
    except ValueError as error:
        raise InputError(f"{file} does not hold a table of numbers ({error}): download it again") from error


def read_matrix(file: Path) -> FloatArray:
    """A square table with names across and down."""
    import pandas as pd

    matrix = pd.read_csv(file, index_col=0)
    if list(map(str, matrix.index)) != list(map(str, matrix.columns)):
        raise InputError(f"{file} has other names down than across: give a square table, rows = from")
    return matrix.to_numpy(np.float64)

"""Results on disk: one line of JSON for every finished cell, appended as it finishes, never rewritten."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from visl.errors import InputError
from visl.experiments.design import Cell, Row
from visl.experiments.problem import Structure

DONE, OVER, FAILED = "done", "over the limit", "failed"
# What every row has: what `row_of` writes, and the limit that its run had.
FIELDS = {"key", "experiment", "data_set", "label", "size", "method", "seed", "smoke", "status", "limit_s"}


def rows_file(folder: Path, experiment: str) -> Path:
    return folder / f"{experiment}.jsonl"


def read_rows(file: Path) -> list[Row]:
    """A last line without its end, as when the machine went down, is left out; any other damage is an error."""
    if not file.exists():
        return []
    *lines, _ = file.read_bytes().split(b"\n")  # in bytes, because a line may be cut inside a character
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not row.keys() >= FIELDS:
            raise InputError(f"{file}, line {number}, is no row of results: remove that line, or the file")
        rows.append(row)
    return rows


def append_row(file: Path, row: Row) -> int:
    """The number of bytes by which the file has grown, unless its last line was not finished."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _remove_unfinished_line(file)
    line = (json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n").encode()
    with file.open("ab", buffering=0) as stream:  # in one piece: another run may append to the same file
        stream.write(line)
    return len(line)


def _remove_unfinished_line(file: Path) -> None:
    if file.exists() and (written := file.read_bytes()) and not written.endswith(b"\n"):
        with file.open("r+b") as stream:
            stream.truncate(written.rfind(b"\n") + 1)


def settled(rows: Sequence[Row], limit_s: float, device: str = "cpu") -> dict[str, Row]:
    """Cells that need not run again on the device: done on any, or over a limit that was no smaller on one of its kind.

    The last row of a cell counts, and beside it the last one from such a device.
    """
    last = {row["key"]: row for row in rows}
    last_here = {row["key"]: row for row in rows if _same_kind(row, device)}
    over = {key: row for key, row in last_here.items() if row["status"] == OVER and row["limit_s"] >= limit_s}
    return over | {key: row for key, row in last.items() if row["status"] == DONE}


def over_the_limit_at(rows: Sequence[Row], cell: Cell, limit_s: float, device: str = "cpu") -> Row | None:
    """A row that says that this cell's method was over the limit on a data set no larger than the cell's."""
    for row in rows:
        if (
            row["status"] == OVER
            and row["method"] == cell.contender.name
            and row["smoke"] == cell.smoke
            and row["limit_s"] >= limit_s
            and row["size"] <= cell.data_set.size
            and _same_kind(row, device)
        ):
            return row
    return None


def _same_kind(row: Row, device: str) -> bool:
    """Rows have a GPU's own name, such as "NVIDIA H200", or its name in torch; without any, it was no GPU."""
    return (row.get("device", "cpu") == "cpu") == (device == "cpu")


def row_of(cell: Cell, status: str, **more: Any) -> Row:
    return {
        "key": cell.key,
        "experiment": cell.experiment,
        "data_set": cell.data_set.name,
        "label": cell.data_set.label,
        "size": cell.data_set.size,
        "method": cell.contender.name,
        "seed": cell.seed,
        "smoke": cell.smoke,
        "status": status,
        **more,
    }


def pack_edges(structure: Structure) -> dict[str, Any]:
    """The method's own edges, and every pair's probability or strength to three digits."""
    strengths = structure.edges if structure.probabilities is None else structure.probabilities
    packed = zlib.compress(np.round(strengths.astype(float), 3).astype("<f2").tobytes(), level=9)
    return {
        "nodes": len(strengths),
        "found": np.argwhere(structure.edges).tolist(),
        "strengths": base64.b64encode(packed).decode(),
    }


def unpack_edges(packed: dict[str, Any]) -> Structure:
    M = packed["nodes"]
    edges = np.zeros((M, M), bool)
    for i, j in packed["found"]:
        edges[i, j] = True
    strengths = np.frombuffer(zlib.decompress(base64.b64decode(packed["strengths"])), "<f2").reshape(M, M)
    return Structure(edges, strengths.astype(np.float64))


def plain(value: Any) -> Any:
    """What JSON can hold: no NaN, no numbers of NumPy."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)

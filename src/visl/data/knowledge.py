"""What the user knows of the graph beforehand: a prior probability for each edge, [from, to]."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from visl.data.files import csv_records
from visl.data.groups import KnownNames, Name
from visl.data.outputs import PathLike
from visl.errors import InputError

FloatArray = NDArray[np.float64]
Edge = tuple[Name, Name]
Entry = tuple[Any, Any, Any, str]  # from, to, probability, and where that is written

SURENESS = 1e-6  # an open edge's prior is no nearer to 0 or 1: in float32 it could round to them, and they are hard
FORMS = "a number, a table of groups by groups, or the name of a CSV file"


def resolve_prior(groups: Sequence[Name], edge_prior: Any, forbidden: Any, required: Any, default: float) -> FloatArray:
    """The prior probability of each edge, with a zero diagonal; 0 and 1 are hard.  (M, M), [from, to]

    edge_prior: None (the default everywhere), a number, a table of groups by groups (a data frame or a mapping of
    mappings with names, or an array in the order of the groups), or a CSV file of such a table or of edges
    (from, to, probability; the default for any other). forbidden, required: pairs (from, to), or a CSV file of them.
    """
    known = KnownNames(groups, "group")
    uniform, stated = _stated(groups, edge_prior, known, default)
    hard = _hard_edges(known, forbidden, required)
    _refuse_contradictions(stated, hard)
    index = {group: i for i, group in enumerate(groups)}
    prior = np.full((len(groups), len(groups)), uniform, dtype=np.float64)
    for (source, target), probability in {**stated, **hard}.items():
        prior[index[source], index[target]] = probability
    is_open = (prior > 0) & (prior < 1)
    prior[is_open] = np.clip(prior[is_open], SURENESS, 1 - SURENESS)
    np.fill_diagonal(prior, 0.0)
    _refuse_cycles(groups, prior)
    return prior


# -- the soft part


def _stated(
    groups: Sequence[Name], edge_prior: Any, known: KnownNames, default: float
) -> tuple[float, dict[Edge, float]]:
    """The probability of any edge that is not named, and those of the edges that are."""
    uniform = _probability(default, "the default prior")
    if edge_prior is None:
        return uniform, {}
    if isinstance(edge_prior, Real):  # a number of NumPy as well
        return _probability(edge_prior, "edge_prior"), {}
    is_table, entries = _entries(groups, edge_prior, known)
    stated: dict[Edge, float] = {}
    for source, target, value, where in entries:
        edge = known.need(source, where), known.need(target, where)
        if edge in stated:
            raise InputError(f"{where}: edge {_arrow(edge)} is listed twice: keep one")
        if edge[0] == edge[1]:
            _check_self(edge, value, where, is_table)
        else:
            stated[edge] = _probability(value, f"{where}: edge {_arrow(edge)}")
    if is_table:
        _refuse_missing(groups, stated)
    return uniform, stated


def _entries(groups: Sequence[Name], edge_prior: Any, known: KnownNames) -> tuple[bool, Iterable[Entry]]:
    """Whether the prior is a whole table, and its entries."""
    if isinstance(edge_prior, str | os.PathLike):
        return _csv_entries(edge_prior, known)
    if isinstance(edge_prior, Mapping):
        return True, _mapping_entries(edge_prior)
    try:
        frame = nw.from_native(edge_prior, eager_only=True)
    except TypeError:
        return True, _array_entries(groups, edge_prior)
    return True, _frame_entries(frame, edge_prior, known)


def _mapping_entries(table: Mapping[Any, Any]) -> Iterator[Entry]:
    for source, targets in table.items():
        if not isinstance(targets, Mapping):
            raise InputError(f"edge_prior: {source!r} has {targets!r}: give {{from: {{to: probability, ...}}, ...}}")
        for target, value in targets.items():
            yield source, target, value, "edge_prior"


def _array_entries(groups: Sequence[Name], values: Any) -> Iterator[Entry]:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"edge_prior is a {type(values).__name__}: give {FORMS}") from error
    M = len(groups)
    if table.shape != (M, M):
        raise InputError(f"edge_prior has shape {table.shape}: give ({M}, {M}), one row and one column for each group")
    for i, source in enumerate(groups):
        for j, target in enumerate(groups):
            yield source, target, float(table[i, j]), "edge_prior"


def _frame_entries(frame: Any, native: Any, known: KnownNames) -> Iterator[Entry]:
    """Names of the rows are the index of a pandas frame if it holds groups, else the first column."""
    index = list(getattr(native, "index", ())) if nw.dependencies.is_pandas_dataframe(native) else []
    titles = list(frame.columns)
    named_by_index = bool(index) and any(known.find(name) is not None for name in index)
    if named_by_index and len(titles) > len(index):
        named_by_index = known.find(titles[0]) is not None  # groups 0, 1, ... look like the plain index of a frame
    if not named_by_index:
        index, titles = frame[:, 0].to_list() if titles else [], titles[1:]
    _refuse_repeated_titles(titles, "edge_prior")
    first = frame.shape[1] - len(titles)
    for position, target in enumerate(titles, start=first):
        for source, value in zip(index, frame[:, position].to_list(), strict=True):
            yield source, target, value, "edge_prior"


def _csv_entries(path: PathLike, known: KnownNames) -> tuple[bool, list[Entry]]:
    records = csv_records(path)
    _, header = next(records)
    titles = [title.strip().lower() for title in header]
    if {"from", "to", "probability"} <= set(titles):
        places = [titles.index(title) for title in ("from", "to", "probability")]
        return False, [(*(cells[i] for i in places), f"{path}, line {line}") for line, cells in records]  # type: ignore[misc]
    if all(known.find(title) is None for title in header[1:]):
        raise InputError(
            f"{path} has the columns {', '.join(map(repr, header))}: give from,to,probability, "
            "or a table with the groups in its first line and first column"
        )
    _refuse_repeated_titles(header[1:], str(path))
    return True, [
        (cells[0], target, value, f"{path}, line {line}")
        for line, cells in records
        for target, value in zip(header[1:], cells[1:], strict=True)
    ]


def _refuse_repeated_titles(titles: Sequence[Any], where: str) -> None:
    for i, title in enumerate(titles):
        if title in titles[:i]:
            raise InputError(f"{where}: column {title!r} is there twice: keep one")


def _probability(value: Any, where: str) -> float:
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{where} has the probability {value!r}: give a number from 0 to 1")
    return number


def _number(value: Any) -> float:
    """NaN for anything that is no number, a gap for one."""
    try:
        return float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return float("nan")


def _check_self(edge: Edge, value: Any, where: str, is_table: bool) -> None:
    """The diagonal of a table may hold anything but a certain edge; a list has no reason to name such an edge."""
    number = _number(value)
    if number == 1.0 or (number != 0.0 and not is_table):
        raise InputError(f"{where}: {_arrow(edge)} is an edge from a group to itself: remove it")


def _refuse_missing(groups: Sequence[Name], stated: Mapping[Edge, float]) -> None:
    for edge in permutations(groups, 2):
        if edge not in stated:
            raise InputError(f"edge_prior has no entry for {_arrow(edge)}: a table needs one for every pair of groups")


# -- the hard part


def _hard_edges(known: KnownNames, forbidden: Any, required: Any) -> dict[Edge, float]:
    hard = dict.fromkeys(_edges(known, forbidden, "forbidden"), 0.0)
    for edge in _edges(known, required, "required"):
        if edge[0] == edge[1]:
            raise InputError(f"required: {_arrow(edge)} is an edge from a group to itself: remove it")
        if edge in hard:
            raise InputError(f"edge {_arrow(edge)} is both forbidden and required: keep one")
        hard[edge] = 1.0
    return {edge: value for edge, value in hard.items() if edge[0] != edge[1]}


def _edges(known: KnownNames, edges: Any, what: str) -> list[Edge]:
    """Each once, in the order given; an edge named twice is no contradiction."""
    pairs = _csv_pairs(edges, what) if isinstance(edges, str | os.PathLike) else _given_pairs(edges, what)
    return list(
        dict.fromkeys((known.need(source, where), known.need(target, where)) for source, target, where in pairs)
    )


def _given_pairs(edges: Any, what: str) -> Iterator[tuple[Any, Any, str]]:
    if edges is not None and (isinstance(edges, Mapping) or not isinstance(edges, Iterable)):
        raise InputError(f"{what} is a {type(edges).__name__}: give a list of pairs (from, to), or a CSV file")
    for pair in edges if edges is not None else ():
        if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
            raise InputError(f"{what}: {pair!r} is no pair: give (from, to)")
        yield pair[0], pair[1], what


def _csv_pairs(path: PathLike, what: str) -> Iterator[tuple[Any, Any, str]]:
    records = csv_records(path)
    _, header = next(records)
    titles = [title.strip().lower() for title in header]
    if not {"from", "to"} <= set(titles):
        raise InputError(f"{path} ({what} edges) starts with {', '.join(map(repr, header))}: start it with from,to")
    source, target = titles.index("from"), titles.index("to")
    for line, cells in records:
        yield cells[source], cells[target], f"{path}, line {line}"


def _refuse_contradictions(stated: Mapping[Edge, float], hard: Mapping[Edge, float]) -> None:
    for edge, value in hard.items():
        if stated.get(edge) == 1.0 - value:
            word = "required" if value else "forbidden"
            raise InputError(
                f"edge {_arrow(edge)} is {word}, and edge_prior gives it probability {1 - value:g}: change one of them"
            )


def _refuse_cycles(groups: Sequence[Name], prior: FloatArray) -> None:
    sure = [(groups[i], groups[j]) for i, j in np.argwhere(prior == 1.0)]
    if not sure:
        return
    import networkx as nx  # slow to import, and seldom needed

    try:
        cycle = nx.find_cycle(nx.DiGraph(sure))
    except nx.NetworkXNoCycle:
        return
    path = " -> ".join(str(edge[0]) for edge in [*cycle, cycle[0]])
    raise InputError(f"the required edges form a cycle, {path}: leave out one of them")


def _arrow(edge: tuple[Any, Any]) -> str:
    return f"{edge[0]!r} -> {edge[1]!r}"

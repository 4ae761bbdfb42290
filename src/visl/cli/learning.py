"""What the commands that learn a model are given: the table, and what is known of it beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visl.cli.console import Talk
from visl.cli.knowledge import edges_of, kinds_of, prior_of
from visl.cli.options import LogNames
from visl.cli.tables import check_labels, read_log, read_log_parts, read_wide
from visl.data.source import Name
from visl.steps import Alone

if TYPE_CHECKING:
    from visl.parallel import Parallel


@dataclass(frozen=True)
class ToLearn:
    X: Any
    set_aside: list[Name]
    kinds: dict[Name, Any] | None
    known_cells: int


def read_to_learn(
    talk: Talk,
    table: Path,
    names: LogNames | None,
    row_label: str | None,
    drop: Sequence[str] | None,
    kinds: Path | None,
    kind: Sequence[str] | None,
    engine: Parallel | None = None,
) -> ToLearn:
    """engine: other processes that read as well, a folder each its own files."""
    together = engine or Alone()
    if names is None:
        wide = together.agree(lambda: read_wide(table, row_label, drop or []))
        X = wide.modelled
        settings = kinds_of(kinds, kind or [], list(X.columns))
        for notice in check_labels(wide, settings or {}):
            talk.notice(notice)
        return ToLearn(X, wide.set_aside, settings, int(X.notna().to_numpy().sum()))
    if engine is not None and table.is_dir():
        parts, set_aside = read_log_parts(table, names, row_label, drop or [], engine)
        settings = kinds_of(kinds, kind or [], parts.column_ids)
        return ToLearn(parts, set_aside, settings, sum(engine.gather(parts.n_cells)))
    log, set_aside = together.agree(lambda: read_log(table, names, row_label, drop or []))
    return ToLearn(log, set_aside, kinds_of(kinds, kind or [], log.column_ids.tolist()), log.n_cells)


def knowledge_of(
    groups: Path | None,
    edge_prior: str | None,
    forbid: Sequence[str] | None,
    forbidden_edges: Path | None,
    require: Sequence[str] | None,
    required_edges: Path | None,
) -> dict[str, Any]:
    """In the terms of the estimator."""
    return {
        "groups": None if groups is None else str(groups),
        "edge_prior": prior_of(edge_prior),
        "forbidden_edges": edges_of("--forbid", forbid or [], "--forbidden-edges", forbidden_edges),
        "required_edges": edges_of("--require", require or [], "--required-edges", required_edges),
    }

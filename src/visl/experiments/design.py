"""What an experiment consists of: data sets, contenders, and the cells in which they meet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visl.errors import InputError
from visl.experiments.problem import Problem, Truth

Row = dict[str, Any]  # what became of a cell


@dataclass(frozen=True)
class DataSet:
    """A data set by name: `Experiment.load` makes or reads it wherever a cell runs."""

    name: str
    size: int  # columns: a method over the limit at one size is not tried at the same or a larger one
    settings: Mapping[str, Any]  # what `load` needs; plain numbers and words. "seed" is the methods' as well
    label: str = ""  # what data sets are gathered by in the tables, such as "D=5"


@dataclass(frozen=True)
class Contender:
    """A method with its settings, under the name that the tables give it."""

    name: str
    method: str  # of methods.METHODS
    settings: Mapping[str, Any] = field(default_factory=dict)
    fill: str | None = None  # imputation method that fills the gaps of the training table first
    only: tuple[str, ...] = ()  # on data sets with these labels; none: on all


@dataclass(frozen=True)
class Cell:
    """One contender on one data set from one seed. Plain enough to be sent to another machine as JSON."""

    experiment: str
    data_set: DataSet
    contender: Contender
    seed: int
    smoke: bool = False

    @property
    def key(self) -> str:
        """What makes it the same cell as one that is already done."""
        parts = {
            "data_set": [self.data_set.name, dict(self.data_set.settings)],
            "contender": [self.contender.name, self.contender.method, dict(self.contender.settings)],
            "seed": self.seed,
            "smoke": self.smoke,
            "fill": self.contender.fill,
        }
        written = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str  # one line for the help and the page
    data_sets: Callable[[bool], Sequence[DataSet]]  # smoke ->
    contenders: Sequence[Contender]
    load: Callable[[DataSet, Path | None], tuple[Problem, Truth]]
    tables: Callable[[Sequence[Row]], list[str]]  # sections of the page, Markdown
    pictures: Callable[[Sequence[Row], Path, Path | None], list[Path]] = lambda rows, folder, data: []
    keeps_edges: Callable[[DataSet], bool] = lambda data_set: False  # whether rows keep every edge's probability
    download: str | None = None  # what data to get, and where to put it; None: they are simulated
    # What tells the files of a data set from those of others: one data set of each is loaded before anything runs.
    files_of: Callable[[DataSet], Hashable] = lambda data_set: data_set.name

    def names(self, can: Callable[[str], bool] = lambda method: True) -> list[str]:
        """Of the contenders whose method can do this."""
        return [contender.name for contender in self.contenders if can(contender.method)]

    def cells(self, *, smoke: bool = False, contenders: Sequence[str] | None = None) -> list[Cell]:
        """Small data sets first, and all contenders on one data set before the next."""
        chosen = self._chosen(contenders)
        return [
            Cell(self.name, data_set, contender, int(data_set.settings.get("seed", 0)), smoke)
            for data_set in sorted(self.data_sets(smoke), key=lambda data_set: data_set.size)
            for contender in chosen
            if not contender.only or data_set.label in contender.only
        ]

    def _chosen(self, names: Sequence[str] | None) -> list[Contender]:
        if names is None:
            return list(self.contenders)
        known = {contender.name.lower(): contender for contender in self.contenders}
        unknown = [name for name in names if name.lower() not in known]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is no method of the experiment {self.name}: use any of "
                + ", ".join(repr(contender.name) for contender in self.contenders)
            )
        return [known[name] for name in dict.fromkeys(map(str.lower, names))]

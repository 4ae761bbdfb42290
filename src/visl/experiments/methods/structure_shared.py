"""What every structure method of another library needs: checked data, a quiet and seeded call, graphs in our form."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch

import visl
from visl.errors import InputError
from visl.experiments.problem import Answer, BoolArray, FloatArray, IntArray, Problem, Run, Structure

BINS = 5  # of a continuous column where a method takes levels only


@dataclass(frozen=True)
class Columns:
    """The training data as a method gets it: complete, every column with at least two values."""

    values: FloatArray  # (N, D)
    is_level: BoolArray  # (D,) binary, categorical or ordinal

    @property
    def all_levels(self) -> bool:
        return bool(self.is_level.all())

    def standardised(self) -> FloatArray:
        """Mean 0 and variance 1: penalties and thresholds of the gradient methods are meant for this scale."""
        return (self.values - self.values.mean(0)) / self.values.std(0)

    def levels(self) -> IntArray:
        """0, 1, ... in every column; a continuous one is cut at its quantiles into `BINS`."""
        pairs = zip(self.values.T, self.is_level, strict=True)
        columns = [_levels(column) if is_level else _bins(column) for column, is_level in pairs]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Learned:
    edges: BoolArray  # (D, D), [from, to]
    strengths: FloatArray | None = None  # (D, D), >= 0; ranks pairs, is no probability


def learn_structure(
    method: str, problem: Problem, run: Run, library: str, learn: Callable[[Columns], Learned], **settings: object
) -> Answer:
    """Checks the problem, calls `learn` quietly with the columns that vary, puts the others back as isolated nodes."""
    _check(method, problem)
    version = version_of(library, method)
    varies = np.ptp(problem.train, axis=0) > 0
    structure = Structure(np.zeros((len(varies), len(varies)), dtype=bool))
    if varies.sum() > 1:
        is_level = np.array([kind != "continuous" for kind in problem.kinds])[varies]
        with quiet_and_seeded(run.seed):
            learned = learn(Columns(problem.train[:, varies].copy(), is_level))
        structure = _put_back(learned, varies)
    return Answer(structure=structure, settings={"library": library, "version": version, **settings})


def version_of(library: str, method: str) -> str:
    """Of the installed distribution; of this package even where it is used without being installed."""
    if library == "visl":
        return visl.__version__
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"{method} needs {library}: pip install 'visl[baselines]'") from error


def module(name: str) -> ModuleType:
    """Imported late: these libraries are optional, take seconds to import, and change global settings as they do."""
    return importlib.import_module(name)


@contextlib.contextmanager
def quiet_and_seeded(seed: int) -> Iterator[None]:
    """The libraries print, log, warn, draw from the global generators, set torch's default type: all undone after."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))  # progress bars
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.printoptions())
        stack.enter_context(_global_settings_kept())
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - the generator that the libraries draw from
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _global_settings_kept() -> Iterator[None]:
    root, hash_seed = logging.getLogger(), os.environ.get("PYTHONHASHSEED")
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch_state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    try:
        yield
    finally:
        root.handlers[:], root.manager.disable = handlers, disabled
        root.setLevel(level)
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)
        torch.set_default_dtype(dtype)
        if hash_seed is None:
            os.environ.pop("PYTHONHASHSEED", None)
        else:
            os.environ["PYTHONHASHSEED"] = hash_seed


def _check(method: str, problem: Problem) -> None:
    """Several of the libraries answer a NaN with an empty or a complete graph, without a word."""
    if not problem.variable_wise:
        raise InputError(f"{method} finds edges between columns, not between groups: give each column its own group")
    if problem.has_gaps:
        raise InputError(
            f"{method} needs complete training data, and {_n_gaps(problem)} cells are empty: fill the gaps first"
        )


def _n_gaps(problem: Problem) -> int:
    return int(np.isnan(problem.train).sum())


def _put_back(learned: Learned, varies: BoolArray) -> Structure:
    """(d, d) of the columns that vary -> (D, D)"""
    place, D = np.ix_(varies, varies), len(varies)
    edges = np.zeros((D, D), dtype=bool)
    edges[place] = learned.edges
    np.fill_diagonal(edges, False)
    if learned.strengths is None:
        return Structure(edges)
    strengths = np.zeros((D, D))
    strengths[place] = learned.strengths
    np.fill_diagonal(strengths, 0.0)
    return Structure(edges, strengths)


def _levels(column: FloatArray) -> IntArray:
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def _bins(column: FloatArray) -> IntArray:
    """Equal values share a bin, and there are at least two bins, however uneven the values are."""
    below_top = column[column < column.max()]
    cuts = np.quantile(column, np.arange(1, BINS) / BINS)
    cuts = np.append(cuts[cuts < column.max()], below_top.max() if cuts[0] == column.max() else [])
    return _levels(np.searchsorted(np.unique(cuts), column, side="left").astype(np.float64))

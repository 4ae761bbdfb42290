"""Bayesian networks of levels, from files in the Bayesian Interchange Format (BIF), and rows drawn from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from visl.errors import InputError
from visl.experiments.problem import BoolArray, FloatArray, IntArray

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[[^\]]*\]\s*\{([^}]*)\}")
PROBABILITY = re.compile(r"probability\s*\(([^)]*)\)\s*\{(.*?)\n\s*\}", re.DOTALL)
LINE = re.compile(r"(?:table|\(([^)]*)\))\s*([^;]*);")


@dataclass(frozen=True)
class Variable:
    name: str
    levels: tuple[str, ...]
    parents: tuple[int, ...]  # positions of other variables
    table: FloatArray  # (levels of the first parent, ..., levels): shares of each line add up to 1


@dataclass(frozen=True)
class BayesianNetwork:
    variables: tuple[Variable, ...]

    @property
    def edges(self) -> BoolArray:
        """(D, D) [from, to]"""
        result = np.zeros((len(self.variables), len(self.variables)), dtype=bool)
        for j, variable in enumerate(self.variables):
            result[list(variable.parents), j] = True
        return result

    def sample(self, n_rows: int, rng: np.random.Generator) -> IntArray:
        """(rows, D) indices of levels"""
        rows = np.full((n_rows, len(self.variables)), -1, dtype=np.int64)
        waiting = list(range(len(self.variables)))
        while waiting:
            ready = [j for j in waiting if not set(self.variables[j].parents) & set(waiting)]
            if not ready:
                raise InputError("the network has a cycle: each variable must come after its parents in some order")
            for j in ready:
                variable = self.variables[j]
                shares = variable.table[tuple(rows[:, k] for k in variable.parents)]
                below = np.broadcast_to(shares.cumsum(-1), (n_rows, len(variable.levels)))
                rows[:, j] = (rng.random((n_rows, 1)) * below[:, -1:] >= below[:, :-1]).sum(1)
            waiting = [j for j in waiting if j not in ready]
        return rows


def parse_bif(text: str, file: str) -> BayesianNetwork:
    """file: its name, for messages"""
    levels = {name: tuple(word.strip() for word in words.split(",")) for name, words in VARIABLE.findall(text)}
    names = list(levels)
    found: dict[str, Variable] = {}
    for head, body in PROBABILITY.findall(text):
        name, _, given = (part.strip() for part in head.partition("|"))
        parents = [word.strip() for word in given.split(",") if word.strip()]
        for word in (name, *parents):
            if word not in levels:
                raise InputError(f"{file}: {word!r} has a probability but is no variable: the file is damaged")
        table = _table(body, levels[name], [levels[parent] for parent in parents], f"{file}, {name}")
        found[name] = Variable(name, levels[name], tuple(names.index(parent) for parent in parents), table)
    lacking = [name for name in names if name not in found]
    if lacking or not names:
        raise InputError(f"{file}: {lacking[0] if lacking else 'it'} has no probabilities: it is no whole BIF file")
    return BayesianNetwork(tuple(found[name] for name in names))


def _table(body: str, levels: Sequence[str], of_parents: Sequence[Sequence[str]], where: str) -> FloatArray:
    result = np.full((*map(len, of_parents), len(levels)), np.nan)
    for given, numbers in LINE.findall(body):
        words = [word.strip() for word in given.split(",")] if given else []
        try:
            line = tuple(known.index(word) for known, word in zip(of_parents, words, strict=True))
            result[line] = [float(number) for number in numbers.split(",")]
        except ValueError as error:
            raise InputError(f"{where}: the line '({given}) {numbers}' does not fit its levels") from error
    if not np.allclose(result.sum(-1), 1, atol=1e-3):
        raise InputError(f"{where}: the shares of a line are missing or do not add up to 1")
    return result

"""What is varied: for each setting of `Config` a range, or a list of values."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from visl.config import Config, check_known
from visl.errors import InputError

if TYPE_CHECKING:
    from optuna import Trial

LOG_FROM = 10.0  # a range over this factor or more is searched on the log scale
POSITION = "_position"  # ends the name of an Optuna parameter that is the position of a value in its list
FORM = "write NAME=LOW..HIGH, as in learning_rate=1e-4..1e-2, or NAME=a,b,c, as in latent_dim=8,16,32"


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high / self.low >= LOG_FROM

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.low, self.high

    def suggest(self, trial: Trial, name: str) -> Any:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


@dataclass(frozen=True)
class Choices:
    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.values

    def suggest(self, trial: Trial, name: str) -> Any:
        """Ascending numbers are searched by their position: so the sampler knows which are neighbours."""
        if not all(is_number(value) for value in self.values):
            return trial.suggest_categorical(name, self.values)
        ascending = sorted(self.values)
        steps = {after - before for before, after in pairwise(ascending)}
        if len(steps) == 1 and all(isinstance(value, int) for value in ascending):
            return trial.suggest_int(name, ascending[0], ascending[-1], step=steps.pop())
        return ascending[trial.suggest_int(name + POSITION, 0, len(ascending) - 1)]

    def __str__(self) -> str:
        return ",".join(map(_written, self.values))


Space = Mapping[str, Range | Choices]

# The paper's, section 5.3.
PAPER_SPACE: dict[str, Range | Choices] = {
    "latent_dim": Choices(tuple(range(5, 51, 5))),
    "message_steps": Choices((3, 5, 8, 10, 12, 14, 16, 18, 20)),
    "learning_rate": Choices((1e-4, 1e-3, 1e-2)),
}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse_space(texts: Sequence[str]) -> dict[str, Range | Choices]:
    """Of several --vary."""
    space: dict[str, Range | Choices] = {}
    for text in texts:
        name, varied = parse_vary(text)
        if name in space:
            raise InputError(f"--vary {text}: {name} is varied twice: keep one")
        space[name] = varied
    return space


def parse_vary(text: str) -> tuple[str, Range | Choices]:
    """NAME=LOW..HIGH or NAME=a,b,c"""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name or not values:
        raise InputError(f"--vary {text}: {FORM}")
    with _of_vary():
        check_known([name])
    low, dots, high = values.partition("..")
    if not dots:
        return name, Choices(tuple(_parse(name, value.strip()) for value in values.split(",")))
    ends = _parse(name, low), _parse(name, high)
    if not all(map(is_number, ends)):
        raise InputError(f"--vary {text}: a range is of numbers: {FORM}")
    return name, Range(*ends)


def check_space(space: Mapping[str, Any]) -> Space:
    """Every value must be one that the model takes."""
    if not space:
        raise InputError("nothing is varied: name at least one setting")
    for name, varied in space.items():
        with _of_vary():
            check_known([name])
        if not isinstance(varied, Range | Choices):
            raise InputError(f"vary: {name} is {varied!r}: give a Range(low, high) or Choices((a, b, ...))")
        if isinstance(varied, Range) and not varied.low < varied.high:
            raise InputError(f"vary: {name} goes from {varied.low:g} to {varied.high:g}: give the lower end first")
        if isinstance(varied, Choices) and len(set(varied.values)) < max(2, len(varied.values)):
            raise InputError(f"vary: {name} has the values {varied}: give at least two different ones")
        for value in varied.ends:
            with _of_vary():
                Config(**{name: value})
    return space


@contextmanager
def _of_vary() -> Iterator[None]:
    """Errors say what they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"vary: {error}") from None


def _parse(name: str, text: str) -> Any:
    """In the setting's own type."""
    types_ = _types_of(name)
    words = {"none": None, "true": True, "false": False}
    word = words.get(text.lower(), text)
    if type(word) in types_ and not isinstance(word, str):
        return word
    for number in (int, float):
        if number in types_:
            try:
                return number(text)
            except ValueError:
                continue
    if str in types_:
        return text
    names = " or ".join(sorted(kind.__name__.replace("NoneType", "none") for kind in types_))
    raise InputError(f"vary: {name} has the value {text!r}: give values of type {names}")


def _types_of(name: str) -> tuple[type, ...]:
    hint = get_type_hints(Config)[name]
    return get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

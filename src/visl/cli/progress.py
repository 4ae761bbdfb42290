"""How a fit shows where it is, and how it is stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from visl.cli.console import Talk, duration
from visl.cli.guard import handling, raise_for

if TYPE_CHECKING:
    from visl.training import TrainingState

LINES_WITHOUT_TERMINAL = 10
SECONDS_BETWEEN_UPDATES, SECONDS_BETWEEN_LINES = 0.1, 5.0


class StopSignals:
    """Ctrl-C and SIGTERM. While there is something worth keeping the first one is only remembered.

    once: so are all others, because one that started this process passes on what the terminal has sent already.
    """

    def __init__(self, *, once: bool = False) -> None:
        self.once, self.worth_keeping = once, False
        self.received: int | None = None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.once and self.received is not None:
            return
        if not self.worth_keeping or self.received is not None:
            raise_for(signum)
        self.received = signum

    @contextmanager
    def __call__(self) -> Iterator[StopSignals]:
        with handling(self._handle, signal.SIGINT, signal.SIGTERM):
            yield self


class TrainingProgress:
    """A bar in a terminal, and some lines anywhere else: how far the search of the graph is, where fits find it; then
    stage, epoch, loss, time left."""

    def __init__(self, talk: Talk, epochs: int) -> None:
        self.talk, self.epochs = talk, epochs
        self.steps = 1  # of an epoch
        self._started = time.monotonic()
        self._first: int | None = None  # epoch that this run started with
        self._next_update = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[place]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=talk.stderr,
            disable=talk.quiet or not talk.stderr.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("Starting", total=epochs, place="")
        self._loss = "..."
        self._said = self._started  # when the last line was

    @contextmanager
    def __call__(self) -> Iterator[TrainingProgress]:
        with self._bar:
            yield self

    def start(self, n_rows: int, batch_size: int, epochs: int) -> None:
        """The table is understood: neither the bar nor the time left counts what came before."""
        self.epochs = epochs
        self.steps = -(-n_rows // batch_size)
        self._started = self._said = time.monotonic()
        self._bar.reset(self._task, total=epochs)

    def on_search(self, done: int, of: int) -> None:
        now = time.monotonic()
        if done == of:
            self.talk.note(f"Found the graph in {duration(now - self._started)}.")
            self._started = now  # the time left is that of the epochs
            self._bar.reset(self._task, total=self.epochs)
            return
        place = f"search {done}/{of}"
        self._bar.update(self._task, description="Finding the graph", total=of, completed=done, place=place)
        if self._bar.disable and not self.talk.quiet and now - self._said > SECONDS_BETWEEN_LINES:
            self._said = now
            self.talk.note(f"finding the graph, {done} of {of} searches done")

    def on_step(self, state: TrainingState) -> bool:
        """False: nothing to stop for, as `should_stop` says it."""
        now = time.monotonic()
        if now >= self._next_update:
            self._next_update = now + SECONDS_BETWEEN_UPDATES
            done = state.epoch + state.step / self.steps
            self._bar.update(self._task, completed=done, place=self._place(min(state.epoch + 1, self.epochs)))
        return False

    def _place(self, epoch: int) -> str:
        return f"epoch {epoch}/{self.epochs} loss {self._loss}"

    def on_epoch(self, record: dict[str, float]) -> None:
        epoch, stage, self._loss = int(record["epoch"]), int(record["stage"]), f"{record['loss']:.4g}"
        self._bar.update(self._task, description=f"Stage {stage} of 2", completed=epoch, place=self._place(epoch))
        if self._first is None:
            self._first = epoch - 1
        every = max(1, self.epochs // LINES_WITHOUT_TERMINAL)
        if self._bar.disable and not self.talk.quiet and epoch % every == 0:
            spent = time.monotonic() - self._started
            left = duration(spent / (epoch - self._first) * (self.epochs - epoch))
            self.talk.note(f"stage {stage} of 2, epoch {epoch} of {self.epochs}, loss {self._loss}, about {left} left")

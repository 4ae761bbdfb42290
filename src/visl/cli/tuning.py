"""What `visl tune` shows on its way, and what it leaves in its folder."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from visl.cli.console import Talk, count, duration, plain_table
from visl.cli.progress import SECONDS_BETWEEN_UPDATES, StopSignals
from visl.data.files import write_table
from visl.data.outputs import claim, write_whole
from visl.report.picture import picture_bytes
from visl.report.study import draw_history, draw_importances, draw_slices
from visl.tune.held_out import METRICS
from visl.tune.results import STATES
from visl.tune.tuner import Watcher

if TYPE_CHECKING:
    from visl.training import TrainingState
    from visl.tune.results import Tuned
    from visl.tune.tuner import Tuner

STUDY_FILE, TRIALS_FILE, BEST_FILE = "study.db", "trials.csv", "best.json"
PICTURES = ("history.png", "importances.png", "slices.png")
SHOWN = 5  # best trials
SECONDS_TO_WRITE = 60.0  # that other workers are given


class TuningProgress(Watcher):
    """A bar in a terminal for the trial that runs, and everywhere a line for each that has ended."""

    def __init__(self, talk: Talk, signals: StopSignals, tuner: Tuner) -> None:
        self.talk, self.signals, self.tuner = talk, signals, tuner
        self._next_update = 0.0
        self._bar = Progress(
            TextColumn("Trial {task.fields[trial]}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[settings]}"),
            console=talk.stderr,
            disable=talk.quiet or not talk.stderr.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=1, trial=0, epoch=0, epochs=0, settings="", visible=False)

    @contextmanager
    def __call__(self) -> Iterator[TuningProgress]:
        with self._bar:
            yield self

    def on_trial(self, number: int, settings: Mapping[str, Any], epochs: int) -> None:
        words = settings_words(settings)
        self._bar.reset(self._task, total=epochs, trial=number, epoch=0, epochs=epochs, settings=words, visible=True)

    def on_epoch(self, record: Mapping[str, float]) -> None:
        now = time.monotonic()
        if now >= self._next_update:
            self._next_update = now + SECONDS_BETWEEN_UPDATES
            self._bar.update(self._task, completed=int(record["epoch"]), epoch=int(record["epoch"]))

    def on_end(self, trial: Mapping[str, Any]) -> None:
        settings = settings_words({name: trial[name] for name in self.tuner.space if name in trial})
        score = f"{self.tuner.metric} {trial['score']:.4f}" if trial["score"] == trial["score"] else trial["reason"]
        state = "" if trial["state"] == "finished" else f"{trial['state']} at "
        self.talk.note(f"trial {trial['trial']}: {state}{score} with {settings}, {duration(trial['seconds'])}")

    def should_stop(self, state: TrainingState | None) -> bool:
        return self.signals.received is not None


def settings_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {f'{value:.3g}' if isinstance(value, float) else value}" for name, value in settings.items()
    )


def describe_search(talk: Talk, tuner: Tuner) -> None:
    held = tuner.held_out
    cells, rows = count(int(held.hidden.sum()), "known cell"), count(held.table.n_rows, "row")
    talk.note(f"Scored by {tuner.metric} ({METRICS[tuner.metric].words}) on {cells} of {rows} that no trial sees.")
    talk.note(plain_table(("varied", "values"), [(name, str(varied)) for name, varied in tuner.space.items()]))


def write_results(out: Path, tuner: Tuner) -> tuple[Tuned, list[Path]]:
    """All of it is made anew from the study, whoever has tried what: the last of several workers writes the most."""
    with claim(out, wait=SECONDS_TO_WRITE):
        tuned = tuner.results()
        return tuned, _write(out, tuner, tuned)


def _write(out: Path, tuner: Tuner, tuned: Tuned) -> list[Path]:
    maximize = METRICS[tuner.metric].direction == "maximize"
    write_table(tuned.trials, out / TRIALS_FILE, force=True)
    if tuned.best is None:
        return [out / TRIALS_FILE]
    write_whole(out / BEST_FILE, json.dumps(tuned.best, indent=2, ensure_ascii=False) + "\n", force=True)
    figures = (
        draw_history(tuned.trials, tuner.metric, maximize=maximize),
        draw_importances(tuned.importances),
        draw_slices(tuned.trials, list(tuner.space), tuner.metric),
    )
    for name, figure in zip(PICTURES, figures, strict=True):
        write_whole(out / name, picture_bytes(figure, "png"), force=True)
    return [out / name for name in (TRIALS_FILE, BEST_FILE, *PICTURES)]


def fit_words(table: Path, options: Mapping[str, Any], preset: Path) -> list[str]:
    """The `visl fit` that takes the best settings. options: as they were given; None or False: not at all"""
    words = ["visl", "fit", str(table)]
    for option, given in options.items():
        if given is True:
            words.append(option)
        elif given is not None and given is not False:
            words += [word for one in (given if isinstance(given, list) else [given]) for word in (option, str(one))]
    return [*words, "--preset", str(preset), "--out", "model"]


def summarise(
    talk: Talk, tuner: Tuner, tuned: Tuned, written: list[Path], next_words: Sequence[str], seconds: float
) -> None:
    best = tuned.best
    states = {state: int((tuned.trials["state"] == state).sum()) for state in STATES}
    fixed = {} if best is None else {k: v for k, v in best["settings"].items() if k not in tuner.space}
    summary = {
        "metric": tuner.metric,
        "trials": states,
        "best": best,
        "fixed": fixed,
        "importances": tuned.importances,
        "seconds": round(seconds, 3),
        "written": [str(path) for path in written],
    }
    told = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    if best is None:
        talk.result(summary, f"No trial has finished ({told}): see the column reason of {written[0]}.")
        return
    out = written[0].parent
    talk.result(
        summary,
        f"{count(len(tuned.trials), 'trial')} ({told}); the best {tuner.metric} is {best['score']:.4f}.",
        _best_trials(tuner, tuned),
        f"Written: {', '.join(path.name for path in written)} in {out}.",
        *([_fixed_words(fixed)] if fixed else []),
        f"Next:\n  {shlex.join(next_words)}",
    )


def _fixed_words(fixed: Mapping[str, Any]) -> str:
    """A search may be quick where a fit should not be."""
    epochs = " To train longer, add --epochs N to the next command." if "epochs" in fixed else ""
    return f"{BEST_FILE} also keeps what was fixed for the search: {settings_words(fixed)}.{epochs}"


def _best_trials(tuner: Tuner, tuned: Tuned) -> Any:
    maximize = METRICS[tuner.metric].direction == "maximize"
    finished = tuned.trials[tuned.trials["state"] == "finished"]
    top = finished.sort_values("score", ascending=not maximize, kind="stable").head(SHOWN)
    titles = ("trial", "score", *tuner.space)
    scores = top[["trial", "score"]].itertuples(index=False, name=None)
    values = [[_written(value) for value in line] for line in top[list(tuner.space)].astype(object).to_numpy()]
    rows = [(*score, *line) for score, line in zip(scores, values, strict=True)]
    return plain_table([title.replace("_", " ") for title in titles], rows, title="The best trials")


def _written(value: Any) -> str:
    """As text: 0.0001 is no 0.000"""
    return f"{value:.4g}" if isinstance(value, float) and value == value else "none" if value != value else str(value)

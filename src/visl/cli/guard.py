"""What a command does when something goes wrong: one line in words, and an exit code that scripts can rely on."""

from __future__ import annotations

import functools
import inspect
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import typer

from visl.cli.console import error_line, notice_line
from visl.errors import InputError, ReportedElsewhere

FAULT, BAD_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 2, 130, 141, 143
EXIT_CODES: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
PACKAGE = str(Path(__file__).parents[1])


class Terminated(BaseException):
    """SIGTERM, as KeyboardInterrupt is SIGINT: unfinished files are removed on the way out."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends in an exit code, never in a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with terminating(), _short_warnings(quiet=bool(kwargs.get("quiet"))):
            try:
                command(*args, **kwargs)
                sys.stdout.flush()
            except (KeyboardInterrupt, Terminated) as error:
                error_line("interrupted; nothing was written")
                raise typer.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None
            except BrokenPipeError:
                _forget_stdout()
                raise typer.Exit(BROKEN_PIPE) from None
            except typer.Exit:
                raise
            except ReportedElsewhere:
                raise typer.Exit(BAD_INPUT) from None
            except Exception as error:
                raise typer.Exit(_explain(error)) from None

    # In a paragraph, line breaks are for readers of the code.
    run.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    return run


def debugging() -> bool:
    return os.environ.get("VISL_DEBUG", "") not in ("", "0")


def raise_for(signum: int) -> None:
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None], *signums: int) -> Iterator[None]:
    """The handler for these signals, for a while; only the main thread may set one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {signum: signal.signal(signum, handler) for signum in signums}
    try:
        yield
    finally:
        for signum, previous in old.items():
            signal.signal(signum, previous)


@contextmanager
def terminating() -> Iterator[None]:
    with handling(lambda signum, frame: raise_for(signum), signal.SIGTERM):
        yield


def _explain(error: Exception) -> int:
    """Say what happened and give the exit code."""
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, InputError):
        if os.environ.get("RANK", "0") == "0":  # of several processes, which all meet it, the first one speaks
            error_line(str(error))
        return BAD_INPUT
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        error_line(f"{error.strerror or error}{where}")
        return BAD_INPUT
    if isinstance(error, MemoryError) or _is_device_memory(error):
        error_line("there is not enough memory: lower --batch-size or --latent-dim, or use a machine with more")
        return BAD_INPUT
    reason = " ".join(str(error).split())
    error_line(
        f"visl failed through a fault of its own: {type(error).__name__}: {reason}; "
        "please report it (VISL_DEBUG=1 shows where)"
    )
    return FAULT


def _is_device_memory(error: Exception) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


@contextmanager
def _short_warnings(*, quiet: bool) -> Iterator[None]:
    """Warnings of this package are notices for the user; those of libraries are for programmers."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category is UserWarning and filename.startswith(PACKAGE):
            if not quiet:
                notice_line(str(message))
        elif debugging():
            typer.echo(f"{filename}:{lineno}: {category.__name__}: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _forget_stdout() -> None:
    """Nobody reads any more: what is left in the buffer must not fail at exit."""
    with suppress(OSError, ValueError):  # not a real file, as in a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""What a user is told: the one error that can be put right (it names the thing and the remedy), and warnings."""

from __future__ import annotations

import sys
import warnings

# Frames of these modules are not the user's; those of the command line are, in its way.
_OURS, _COMMAND_LINE = ("visl", "sklearn"), "visl.cli"


class InputError(ValueError):
    """The input or a setting is wrong; the command line turns it into exit code 2."""


def warn_user(message: str | Warning) -> None:
    """A warning that points at the user's own line, however deep in the package it arises."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _is_ours(module: str) -> bool:
    in_command_line = module == _COMMAND_LINE or module.startswith(f"{_COMMAND_LINE}.")
    return module.split(".")[0] in _OURS and not in_command_line


class ReportedElsewhere(Exception):
    """Of several processes that work together, another one says what went wrong."""

"""Settings as users give them, checked and made plain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from visl.config import PRESETS, Config, build_config, check_known
from visl.data.files import read_json
from visl.data.plain import plain
from visl.errors import InputError

MAX_SEED = 2**31 - 1
PRESET_KEYS = ("preset", "settings")  # of a preset file
RECORD_KEYS = ("version", "metric", "score", "trial", "trials")  # where it comes from; `visl tune` writes them


def config_of(preset: Any, settings: dict[str, Any]) -> Config:
    """The preset (a name, a file of one, or the content of such a file) under every setting that is not None."""
    name, changed = preset_parts(preset)
    given = {key: plain(value) for key, value in settings.items() if value is not None}
    config = build_config(name, **{**changed, **given})
    # A preset may say None, which means something in some settings; None of an argument means "as the preset".
    nothing: dict[str, Any] = {key: None for key, value in changed.items() if value is None and key not in given}
    return replace(config, **nothing)


def preset_parts(preset: Any) -> tuple[str, dict[str, Any]]:
    """The name of a preset of ours, and the settings that are changed in it."""
    if preset is None:
        return "default", {}
    if isinstance(preset, Mapping):
        return _check_preset(preset, "the preset")
    if not isinstance(preset, str | os.PathLike):
        raise InputError(f"preset is {preset!r}: give the name of one, such as 'default', or the path of a preset file")
    if preset in PRESETS:
        return str(preset), {}
    if not os.path.exists(preset) and not str(preset).endswith(".json"):
        raise InputError(
            f"unknown preset {str(preset)!r}: use one of {', '.join(map(repr, PRESETS))}, or the path of a preset "
            "file, such as the best.json of `visl tune`"
        )
    return _check_preset(read_json(preset), str(preset))


def _check_preset(content: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(content, Mapping) or not isinstance(content.get("settings", {}), Mapping):
        raise InputError(
            f'{where} holds no preset: give {{"preset": "default", "settings": {{"latent_dim": 16, ...}}}}'
        )
    for key in content:
        if key not in (*PRESET_KEYS, *RECORD_KEYS):
            raise InputError(f"{where} has the unknown key {key!r}: leave it out; settings belong into 'settings'")
    name, settings = content.get("preset", "default"), dict(content.get("settings", {}))
    if not isinstance(name, str) or name not in PRESETS:
        raise InputError(f"{where} starts from the preset {name!r}: use one of {', '.join(map(repr, PRESETS))}")
    try:
        check_known(settings)
        replace(PRESETS[name], **settings)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return name, settings


def kept_preset(preset: Any) -> str | dict[str, Any] | None:
    """What a model keeps of its preset: the content of a file, which may be gone tomorrow."""
    if preset is None:
        return None
    name, settings = preset_parts(preset)
    return {"preset": name, "settings": settings} if settings else name


def preset_words(preset: Any) -> str:
    name, settings = preset_parts(preset)
    changes = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"{name} with {changes}" if changes else name


def check_threshold(threshold: Any) -> None:
    if not _is_number(threshold) or not 0 <= threshold < 1:
        raise InputError(f"edge_threshold is {threshold!r}: give a number from 0 to below 1")


def check_share(name: str, share: Any) -> float:
    if not _is_number(share) or not 0 < share < 1:
        raise InputError(f"{name} is {share!r}: give a share between 0 and 1, such as 0.5")
    return float(share)


def seed_of(random_state: Any) -> int:
    """One seed for everything, drawn from what the user gave; None takes a new one."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MAX_SEED))
    try:
        return int(check_random_state(random_state).randint(MAX_SEED))
    except (TypeError, ValueError) as error:
        raise _bad_seed(random_state) from error


def generator_of(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise _bad_seed(random_state) from error


def kept_seed(random_state: Any) -> int | None:
    """What a file can keep of a random state."""
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    return int(random_state) if is_seed else None


def _bad_seed(random_state: Any) -> InputError:
    return InputError(
        f"random_state is {random_state!r}: give a whole number from 0 to {2**32 - 1}, a random state of NumPy, or None"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)

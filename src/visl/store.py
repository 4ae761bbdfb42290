"""Models and checkpoints on disk: a folder of safetensors and JSON, versioned. Nothing else touches model files."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import visl
from visl.config import Config
from visl.data.outputs import write_folder_whole
from visl.errors import InputError
from visl.model import VislModel
from visl.schema import Schema
from visl.training import TrainingState

# 1: without members; 2: without equations; 3: not standardised; 4: tails as they are; 5: deviations as they are;
# 6: without linear guesses; 7: without conditionals; 8: with networks of the graph; 9: levels as sure as networks are
FORMAT_VERSION = 10
MODEL_FILE, WEIGHTS_FILE, TRAINING_FILE = "visl-model.json", "weights.safetensors", "training.safetensors"


def save(
    folder: str | Path,
    model: VislModel,
    document: dict[str, Any],
    *,
    state: TrainingState | None = None,
    force: bool = False,
) -> None:
    """Write the model whole or not at all. `document` is what its owner wants back beside it; `state`: a checkpoint."""
    from safetensors.torch import save_file

    content = {
        "format": "visl",
        "version": FORMAT_VERSION,
        "written_by": f"visl {visl.__version__}",
        "checkpoint": state is not None,
        "configs": [asdict(config) for config in model.configs],
        "schema": model.schema.to_json(),
        "document": document,
    }
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    training, content["training"] = _pack_state(state) if state is not None else ({}, None)

    def write(target: Path) -> None:
        save_file(weights, target / WEIGHTS_FILE)
        if state is not None:
            save_file(training, target / TRAINING_FILE)
        (target / MODEL_FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        for file in target.glob("*.safetensors"):  # written for the owner's eyes only
            shutil.copymode(target / MODEL_FILE, file)

    write_folder_whole(Path(folder), write, force=force, marker=MODEL_FILE)


def load(folder: str | Path, device: torch.device) -> tuple[VislModel, dict[str, Any], TrainingState | None]:
    """The model, its owner's document, and the training state of a checkpoint (None for a finished model)."""
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"the model folder is given as {folder!r}: give its path")
    folder = Path(folder)
    content = _read_content(folder)
    try:
        configs, schema = [Config(**config) for config in content["configs"]], Schema.from_json(content["schema"])
        M = len(schema.groups)
        model = VislModel(schema, configs, torch.zeros(M, M), [torch.Generator() for _ in configs])
        model.load_state_dict(_read_tensors(folder / WEIGHTS_FILE))
        state = _unpack_state(_read_tensors(folder / TRAINING_FILE), content) if content["checkpoint"] else None
        return model.to(device), content["document"], state
    except InputError:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, AssertionError, RuntimeError) as error:
        raise InputError(f"the model in {folder} is damaged ({error}): fit it again") from error


def _read_content(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise InputError(f"there is no model at {folder}: check the name, or fit one first")
    if not (folder / MODEL_FILE).is_file():
        raise InputError(f"{folder} is not a visl model: a model is a folder that holds {MODEL_FILE}")
    try:
        content = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"the model in {folder} is damaged ({MODEL_FILE}: {error}): fit it again") from error
    if not isinstance(content, dict) or content.get("format") != "visl":
        raise InputError(f"{folder} is not a visl model: {MODEL_FILE} holds something else")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"the model in {folder} is damaged (its format version is {version!r}): fit it again")
    if version < FORMAT_VERSION:
        raise InputError(
            f"the model in {folder} was written by an earlier visl (format {version}, this one reads "
            f"{FORMAT_VERSION}): fit it again"
        )
    if version > FORMAT_VERSION:
        raise InputError(
            f"the model in {folder} was written by a later visl (format {version}, this one reads up to "
            f"{FORMAT_VERSION}): upgrade visl"
        )
    return content


def _read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path, device="cpu")
    except (OSError, SafetensorError) as error:
        raise InputError(f"the model in {path.parent} is damaged ({path.name}: {error}): fit it again") from error
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"the model in {path.parent} is damaged ({path.name}: {name} is not finite): fit it again")
    return tensors


def _pack_state(state: TrainingState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and plain values of a training state."""
    tensors, optimizer = {}, state.optimizer or {"state": {}, "param_groups": None}
    for index, moments in optimizer["state"].items():
        for name, value in moments.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    plain = {
        "epoch": state.epoch,
        "step": state.step,
        "sums": state.sums,
        "history": state.history,
        "param_groups": optimizer["param_groups"],
    }
    return tensors, plain


def _unpack_state(tensors: dict[str, Tensor], content: dict[str, Any]) -> TrainingState:
    plain = content["training"]
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        _, index, name = key.split(".", 2)
        moments.setdefault(int(index), {})[name] = tensor
    return TrainingState(
        epoch=plain["epoch"],
        step=plain["step"],
        sums=plain["sums"],
        history=plain["history"],
        optimizer=None if plain["param_groups"] is None else {"state": moments, "param_groups": plain["param_groups"]},
    )

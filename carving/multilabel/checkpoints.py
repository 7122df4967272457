"""Checkpoints: a run of training in a file, so that one that was killed goes on from its last whole epoch."""

from __future__ import annotations

import contextlib
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from carving.errors import BadValue
from carving.storage.atomic import remove_parts
from carving.storage.locks import shown
from carving.storage.tensorfile import (
    KINDS,
    BadFile,
    check_version,
    kind_of,
    parsing,
    read_tensors,
    refusing_damage,
    write_tensors,
)

FORMAT = "carving training 2"
PAUSE = 10.0  # seconds between checkpoints, at least: short epochs are sooner done again than written
REST = 5  # and so many times as long as the last one took: those of very many features have gigabytes
# What optimizers know of a parameter, and whether that is floats of its shape.
KNOWN = {"step": False, "exp_avg": True, "exp_avg_sq": True}

Weights = dict[str, Tensor]
Facts = dict[str, Any]  # what is known of a run beside its weights, as JSON has it


class Checkpoint:
    """Where a run keeps its weights, its optimizers' state and its facts; without a path it keeps nothing.

    `identity` says what the run is: another one must not go on from here.
    """

    def __init__(
        self, path: Path | None, identity: str, modules: nn.Module, optimizers: list[torch.optim.Optimizer]
    ) -> None:
        self.path, self.identity, self.modules, self.optimizers = path, identity, modules, optimizers
        self._written, self._took = time.monotonic(), 0.0

    def write_if_due(self, facts: Facts, best: Weights | None) -> None:
        """Keep all that the run needs to go on, unless that was done just now; `best` are the weights to end with."""
        start = time.monotonic()
        if self.path is None or start - self._written < max(PAUSE, REST * self._took):
            return
        self._write(self.path, facts, self.optimizers, best)
        self._written = time.monotonic()
        self._took = self._written - start

    def write_weights(self, facts: Facts) -> None:
        """Keep what is wanted of a run that is over: its weights."""
        if self.path is not None:
            self._write(self.path, facts, [], None)

    def _write(self, path: Path, facts: Facts, optimizers: list[torch.optim.Optimizer], best: Weights | None) -> None:
        tensors = {f"weights/{name}": tensor for name, tensor in self.modules.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in (best or {}).items()}
        for number, optimizer in enumerate(optimizers):
            for parameter, state in optimizer.state_dict()["state"].items():
                for name, value in state.items():
                    tensors[f"optimizer/{number}/{parameter}/{name}"] = torch.as_tensor(value)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        metadata = dict(format=FORMAT, run=self.identity, progress=json.dumps(facts))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, "checkpoint", tensors, metadata)

    def resume(self) -> tuple[Facts, Weights | None] | None:
        """Put back the state of a run that was killed; its facts and best weights, or None where there is no file.

        A file that is no checkpoint of this run, or is not as it was written, is refused, and nothing is put back.
        """
        if self.path is None or not self.path.exists():
            return None
        way_out = "Remove it to start over."
        metadata, tensors = read_tensors(self.path, "checkpoint", self._check_run, way_out=way_out)
        with refusing_damage(self.path, way_out=way_out), parsing():
            facts, weights, best = _facts(metadata["progress"]), _below("weights/", tensors), _below("best/", tensors)
            for found in (weights, best) if best else (weights,):
                _check_alike(found, self.modules.state_dict())
            states = [
                _state(optimizer, _below(f"optimizer/{number}/", tensors))
                for number, optimizer in enumerate(self.optimizers)
            ]
        self.modules.load_state_dict(weights)
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(dict(state=state, param_groups=optimizer.state_dict()["param_groups"]))
        return facts, best or None

    def _check_run(self, metadata: dict[str, str]) -> None:
        assert self.path is not None
        if not metadata.get("format", "").startswith(KINDS["checkpoint"]):
            raise BadFile(f"{shown(self.path)} is not a checkpoint. Move it elsewhere, or choose another folder.")
        check_version(self.path, metadata["format"], FORMAT, "Remove it to start over.")
        if metadata.get("run") != self.identity:
            raise BadValue(
                f"{shown(self.path)} belongs to another run: its data, settings or seed differ. Remove it to start "
                "over."
            )


def remove(folder: Path) -> None:
    """Remove the checkpoints that lie in a folder, and the folder if that is all that lay in it."""
    if not folder.is_dir():
        return
    remove_parts(folder)
    for file in folder.glob("*.safetensors"):
        if kind_of(file) == "checkpoint" and not file.is_symlink():
            file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _facts(text: str) -> Facts:
    """What is known of a run: the losses and validations of its epochs, and how many there will be."""
    facts = json.loads(text)
    if not isinstance(facts, dict) or set(facts) - {"losses", "validation", "epochs"}:
        raise BadValue("progress must have losses, validation and epochs only")
    numbers = [*facts.get("losses", []), *facts.get("validation", []), facts["epochs"]]
    if type(facts["epochs"]) is not int or not all(math.isfinite(number) for number in numbers):
        raise BadValue("losses, validation and epochs must be finite numbers")
    return facts


def _below(prefix: str, tensors: Weights) -> Weights:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_alike(found: Weights, wanted: Weights) -> None:
    """Refuse weights that are not those of the network."""
    for name in sorted({*found, *wanted}):
        pair = [None if t is None else (tuple(t.shape), t.dtype) for t in (wanted.get(name), found.get(name))]
        if pair[0] != pair[1]:
            raise BadValue(f"expected the weights {name} as {pair[0]}, got {pair[1]}")


def _state(optimizer: torch.optim.Optimizer, tensors: Weights) -> dict[int, dict[str, Tensor | int]]:
    """An optimizer's state, which stands under `parameter/name`: what it knows of each parameter, and steps."""
    shapes = [tuple(parameter.shape) for group in optimizer.param_groups for parameter in group["params"]]
    whole = isinstance(optimizer, torch.optim.SparseAdam)  # which counts its steps in a plain integer
    state: dict[int, dict[str, Tensor | int]] = {}
    for path, tensor in tensors.items():
        number, name = path.split("/")
        if name not in KNOWN or not number.isdecimal():
            raise BadValue(f"unknown state of an optimizer: {path}")
        _check_piece(path, tensor, shapes[int(number)] if KNOWN[name] else None)
        state.setdefault(int(number), {})[name] = int(tensor) if whole and not KNOWN[name] else tensor
    return state


def _check_piece(path: str, tensor: Tensor, like: tuple[int, ...] | None) -> None:
    """Refuse what an optimizer cannot know of a parameter of such a shape, or, without one, of its steps."""
    if tuple(tensor.shape) != (like or ()) or not (like is None or tensor.is_floating_point()):
        raise BadValue(
            f"expected {path} of the optimizer as floats of shape {like or ()}, got {tuple(tensor.shape)}, "
            f"{tensor.dtype}"
        )

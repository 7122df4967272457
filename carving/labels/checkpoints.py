"""Checkpoints: a run of training in a file, so that one that was killed goes on from its last whole epoch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from carving.errors import BadValue
from carving.files import replace_whole

FORMAT = "carving training 1"
PAUSE = 10.0  # seconds between checkpoints, at least: short epochs are sooner done again than written
REST = 5  # and so many times as long as the last one took: those of very many features have gigabytes

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
        metadata = dict(format=FORMAT, run=self.identity, progress=json.dumps(facts))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, {name: tensor.detach().contiguous() for name, tensor in tensors.items()}, metadata)

    def resume(self) -> tuple[Facts, Weights | None] | None:
        """Put back the state of a run that was killed; its facts and best weights, or None where there is no file."""
        if self.path is None or not self.path.exists():
            return None
        metadata, tensors = self._read(self.path)
        if metadata.get("format") != FORMAT or metadata.get("run") != self.identity:
            raise BadValue(
                f"{self.path} is the checkpoint of another run (data, settings or seed); remove it, or take --fresh, "
                "to begin anew"
            )
        self.modules.load_state_dict(_below("weights/", tensors))
        for number, optimizer in enumerate(self.optimizers):
            _restore(optimizer, _below(f"optimizer/{number}/", tensors))
        return json.loads(metadata["progress"]), _below("best/", tensors) or None

    @staticmethod
    def _read(path: Path) -> tuple[dict[str, str], Weights]:
        try:
            with safe_open(path, framework="pt") as file:
                return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise BadValue(f"{path} is no whole checkpoint ({error}); remove it to begin anew") from None


def _below(prefix: str, tensors: Weights) -> Weights:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _restore(optimizer: torch.optim.Optimizer, tensors: Weights) -> None:
    """Put back an optimizer's state, which stands under `parameter/name`."""
    state: dict[int, dict[str, Tensor | int]] = {}
    for path, tensor in tensors.items():
        parameter, name = path.split("/")
        # SparseAdam counts its steps in a plain integer
        plain = name == "step" and isinstance(optimizer, torch.optim.SparseAdam)
        state.setdefault(int(parameter), {})[name] = int(tensor) if plain else tensor
    optimizer.load_state_dict(dict(state=state, param_groups=optimizer.state_dict()["param_groups"]))

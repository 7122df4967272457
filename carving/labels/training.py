"""Training one network with a head: batches, schedule, validation, early stopping, checkpoints.

Epochs are numbered, and every random choice of an epoch comes from the seed and that number. So a run that was killed
goes on from its last whole epoch and ends with the same weights, bit for bit.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from carving.checks import check_choice, check_integer, check_number
from carving.chunks import slices
from carving.draws import bits
from carving.errors import BadValue
from carving.files import replace_whole
from carving.labels import losses, metrics
from carving.labels.data import Dataset
from carving.labels.heads import Head
from carving.labels.networks import Bag, Network, Scaling
from carving.labels.rows import Rows, rows_of
from carving.symbols import canonical, canonical_path

FORMAT = "carving training 1"
AT_ONCE = 1024  # points predicted at a time
ALIKE = 0.002  # validation nDCG@5 that is this near is as good: it is noisy, and later epochs have lower rates
PAUSE = 10.0  # seconds between checkpoints, at least: short epochs are sooner done again than written
REST = 5  # and so many times as long as the last one took: those of very many features have gigabytes
SAMPLE = 8192  # labels that a softmax looks at where there are more: those of the batch, and others by chance

LOSSES: dict[str, Callable[[Tensor, Rows], Tensor]] = dict(softmax=losses.softmax, binary=losses.binary)


@dataclass(frozen=True)
class Settings:
    """How one network is made and trained; the defaults are those of the published code, for OSC."""

    trunk: str = "deep"  # deep, linear or both
    hidden: int = 512
    expansion: int = 1
    drop: float = 0.0
    input_drop: float = 0.0
    normalise: str = "none"  # none, rows, columns or auto
    loss: str = "head"  # the head's own, or one over the label scores: softmax, binary
    epochs: int = 10
    batch: int = 64
    rate: float = 1e-3
    schedule: str = "exponential"  # or cosine, down to zero after a short rise
    gamma: float = 1.0  # of the exponential schedule: the rate's factor after each epoch
    decay: float = 0.0  # of weights (AdamW)
    patience: int | None = None  # epochs without a validation nDCG@5 as good as the best after which training ends
    until: int | None = None  # the epoch after which training ends, where the schedule would go on

    def __post_init__(self) -> None:
        check_choice("trunk", self.trunk, ("deep", "linear", "both"))
        check_choice("loss", self.loss, ("head", *LOSSES))
        check_choice("schedule", self.schedule, ("exponential", "cosine"))
        check_choice("normalise", self.normalise, ("none", "rows", "columns", "auto"))
        for name in ("hidden", "expansion", "epochs", "batch"):
            check_integer(name, getattr(self, name), 1)
        for name in ("drop", "input_drop"):
            if not 0 <= check_number(name, getattr(self, name)) < 1:
                raise BadValue(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        for name in ("rate", "gamma"):
            if not 0 < check_number(name, getattr(self, name)) < math.inf:
                raise BadValue(f"{name} must be a positive number, got {getattr(self, name)}")
        if not 0 <= check_number("decay", self.decay) < math.inf:
            raise BadValue(f"decay must not be negative, got {self.decay}; 0 is none")
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        if self.until is not None:
            check_integer("until", self.until, 1, self.epochs)


@dataclass
class Progress:
    """What a run has seen so far: an entry for each epoch, and the best epoch by validation."""

    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)  # nDCG@5, a share of 1
    epochs: int = 0  # that will be done at most

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.losses)

    @property
    def best(self) -> int:
        """The last epoch, from 0, whose validation was as good as the best; the last one without validation."""
        if not self.validation:
            return self.epoch - 1
        return int(np.flatnonzero(np.array(self.validation) >= max(self.validation) - ALIKE)[-1])

    def over(self, settings: Settings) -> bool:
        """Whether there is nothing more to do."""
        if self.epoch >= (settings.until or settings.epochs):
            return True
        return settings.patience is not None and self.epoch - 1 - self.best >= settings.patience


Watch = Callable[[Progress, float], None]  # called after a batch with the share of the epoch that is done


def seeded(*parts: Any) -> int:
    """A seed for torch that these labels give."""
    return int(bits([canonical_path(parts)], 1, seed=0, purpose="training")[0, 0] >> np.uint64(1))


def make_network(data: Dataset, head: Head, settings: Settings, seed: int) -> Network:
    """A new network for the data and the head, its weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded("weights", seed))
        scaling = Scaling.fitted(data.features, settings.normalise)
        return network_of(scaling, data.features.shape[1], head, settings)


def network_of(scaling: Scaling, features: int, head: Head, settings: Settings) -> Network:
    """A network as the settings say, its weights drawn by torch's own generator."""
    return Network(
        scaling,
        features,
        head.width,
        trunk=settings.trunk,
        hidden=settings.hidden,
        expansion=settings.expansion,
        drop=settings.drop,
        input_drop=settings.input_drop,
        tanh=head.squashed,
    )


def split(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The data without, and the part for validation: a share of the points by chance."""
    if not 0 < share < 1:
        raise BadValue(f"the validation part must be a share between 0 and 1, got {share}")
    order = np.random.Generator(np.random.Philox(seeded("validation", seed))).permutation(len(data))
    held = max(1, round(share * len(data)))
    if held >= len(data):
        raise BadValue(
            f"{len(data)} labelled points are too few to keep a validation part; train one network without "
            "(settings=Settings(...), validation=0; `--trunk linear --validation 0` on the command line)"
        )
    return data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))


def train(
    network: Network,
    head: Head,
    data: Dataset,
    settings: Settings,
    *,
    seed: int,
    validation: Dataset | None = None,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
) -> Progress:
    """Train in place; with validation the best epoch's weights are kept in the end."""
    if settings.patience is not None and validation is None:
        raise BadValue("early stopping needs a validation part; give one, or patience=None")
    modules = nn.ModuleDict(dict(network=network, head=head))
    optimizers = _optimizers(modules, settings)
    progress, best = Progress(epochs=settings.until or settings.epochs), None
    identity = fingerprint(data, validation, settings, head, seed)
    if checkpoint is not None and checkpoint.exists():
        progress, best = _resume(checkpoint, identity, modules, optimizers)
    written, took = time.monotonic(), 0.0
    finished = progress.over(settings)
    while not progress.over(settings):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeded("epoch", seed, progress.epoch))
            loss = _epoch(network, head, data, settings, optimizers, progress, seed, watch)
        progress.losses.append(loss)
        if validation is not None:
            progress.validation.append(validated(network, head, validation))
            if progress.best == progress.epoch - 1:
                best = {name: tensor.detach().clone() for name, tensor in modules.state_dict().items()}
        now = time.monotonic()
        if checkpoint is not None and now - written >= max(PAUSE, REST * took) and not progress.over(settings):
            _write(checkpoint, identity, modules, optimizers, progress, best)
            written = time.monotonic()
            took = written - now
        if watch is not None:
            watch(progress, 0.0)
    if best is not None:
        modules.load_state_dict(best)
    if checkpoint is not None and not finished:  # the weights are all that is wanted of a run that is over
        _write(checkpoint, identity, modules, [], progress, None)
    network.eval()
    return progress


def _epoch(
    network: Network,
    head: Head,
    data: Dataset,
    settings: Settings,
    optimizers: list[torch.optim.Optimizer],
    progress: Progress,
    seed: int,
    watch: Watch | None,
) -> float:
    network.train()
    epoch, steps, total = progress.epoch, math.ceil(len(data) / settings.batch), 0.0
    for step, which in enumerate(batches(len(data), settings.batch, seeded("order", seed, epoch))):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = settings.rate * factor(
                    settings, epoch, (epoch * steps + step) / (settings.epochs * steps)
                )
            optimizer.zero_grad(set_to_none=True)
        sets = rows_of(data.labels, which)
        outputs = network(rows_of(data.features, which))
        loss = _loss(head, outputs, sets, settings)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        total += float(loss.detach()) * len(which)
        if not math.isfinite(total):
            raise BadValue(f"the loss became {total} in epoch {epoch + 1}; lower the rate, or normalise the features")
        if watch is not None:
            watch(progress, (step + 1) / steps)
    return total / len(data)


def batches(points: int, size: int, seed: int) -> Iterator[Any]:
    """Row numbers of batches that cover all points in random order."""
    order = torch.randperm(points, generator=torch.Generator().manual_seed(seed)).numpy()
    return (order[part] for part in slices(points, size))


def factor(settings: Settings, epoch: int, done: float) -> float:
    """What the rate is multiplied with when a share `done` of all steps is done."""
    if settings.schedule == "exponential":
        return settings.gamma**epoch
    return min(1.0, (done + 1e-3) / 0.05) * 0.5 * (1 + math.cos(math.pi * done))


def _loss(head: Head, outputs: Tensor, sets: Rows, settings: Settings) -> Tensor:
    if settings.loss == "head":
        return head.loss(outputs, sets)
    if head.count <= SAMPLE:
        return LOSSES[settings.loss](head(outputs), sets)
    return LOSSES[settings.loss](*sampled(head, outputs, sets))


def sampled(head: Head, outputs: Tensor, sets: Rows) -> tuple[Tensor, Rows]:
    """Scores of the batch's labels and of others by chance, SAMPLE in all or half as many others, and the sets."""
    own, place = sets.columns.unique(return_inverse=True)
    chance = torch.randint(head.count, (max(SAMPLE // 2, SAMPLE - len(own)),))
    fresh = chance[~torch.isin(chance, own)].unique().to(own.device)
    seen = torch.cat([own, fresh])
    scores = head.similarity(head.read(outputs), head.codes(seen))
    return scores, Rows(place, sets.starts, sets.values, len(seen))


def _optimizers(modules: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """AdamW, and for first layers of very many features an Adam that touches the rows of a batch alone."""
    lazy = [m.weight for m in modules.modules() if isinstance(m, Bag) and m.lazy]
    known = {id(weight) for weight in lazy}
    rest = [p for p in modules.parameters() if id(p) not in known]
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=settings.rate, weight_decay=settings.decay, fused=True)
    ]
    return [*made, torch.optim.SparseAdam(lazy, lr=settings.rate)] if lazy else made


def predict(
    network: nn.Module, head: Head, features: csr_matrix, k: int, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scores and numbers (n, k) of each point's best labels."""
    network.eval()
    with torch.no_grad():
        parts = list(slices(features.shape[0], AT_ONCE)) or [slice(0, 0)]
        found = [head.top(network(rows_of(features, part)), k, bias) for part in parts]
    return torch.cat([scores for scores, _ in found]), torch.cat([ids for _, ids in found])


def validated(network: nn.Module, head: Head, data: Dataset) -> float:
    """nDCG@5 of a network on data, a share of 1."""
    k = min(5, head.count)
    return metrics.ndcg(predict(network, head, data.features, k)[1].numpy(), data.labels, k)


# Checkpoints


def fingerprint(data: Dataset, validation: Dataset | None, settings: Settings, head: Head, seed: int) -> str:
    """What a run is: another one must not go on from its checkpoint."""
    facts = [asdict(settings), repr(head), head.options, seed]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    if not isinstance(head.labels, range):
        digest.update(b"".join(map(canonical, head.labels)))
    for matrix in (
        matrix for part in (data, validation) if part is not None for matrix in (part.features, part.labels)
    ):
        digest.update(repr(matrix.shape).encode())
        for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _write(
    path: Path,
    identity: str,
    modules: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    progress: Progress,
    best: dict[str, Tensor] | None,
) -> None:
    tensors = {f"weights/{name}": tensor for name, tensor in modules.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in (best or {}).items()}
    for number, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer/{number}/{parameter}/{name}"] = torch.as_tensor(value)
    metadata = dict(format=FORMAT, run=identity, progress=json.dumps(asdict(progress)))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_whole(path, {name: tensor.detach().contiguous() for name, tensor in tensors.items()}, metadata)


def _resume(
    path: Path, identity: str, modules: nn.Module, optimizers: list[torch.optim.Optimizer]
) -> tuple[Progress, dict[str, Tensor] | None]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    except SafetensorError as error:
        raise BadValue(f"{path} is no whole checkpoint ({error}); remove it to begin anew") from None
    if metadata.get("format") != FORMAT or metadata.get("run") != identity:
        raise BadValue(
            f"{path} is the checkpoint of another run (data, settings or seed); remove it, or take --fresh, to begin "
            "anew"
        )
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        kind, rest = name.split("/", 1)
        parts[kind][rest] = tensor
    modules.load_state_dict(parts["weights"])
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Any]] = {}
        for name, tensor in parts["optimizer"].items():
            which, parameter, key = name.split("/")
            if int(which) == number:
                # SparseAdam counts its steps in a plain integer
                plain = key == "step" and isinstance(optimizer, torch.optim.SparseAdam)
                state.setdefault(int(parameter), {})[key] = int(tensor) if plain else tensor
        known = optimizer.state_dict()
        optimizer.load_state_dict(dict(state=state, param_groups=known["param_groups"]))
    return Progress(**json.loads(metadata["progress"])), parts["best"] or None

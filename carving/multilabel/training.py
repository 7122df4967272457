"""Training of one network with a label head: batches, learning-rate schedule, early stopping, checkpoints.

Every random choice of an epoch follows from the seed and the epoch's number. A run that was interrupted therefore
resumes from its last complete epoch and ends with the same weights, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.hashing import bits
from carving.inference.top_k import Best
from carving.multilabel import losses, metrics
from carving.multilabel.checkpoints import Checkpoint, Facts, Weights
from carving.multilabel.data import Dataset
from carving.multilabel.heads import Head
from carving.multilabel.networks import Bag, Network, Scaling
from carving.multilabel.ranks import Learning, learners
from carving.multilabel.rows import Rows, rows_of
from carving.symbols.codec import Label, canonical, canonical_path
from carving.tiling import slices
from carving.validate import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

AT_ONCE = 1024  # points predicted at a time
ALIKE = 0.002  # validation nDCG@5 that is this near is as good: it is noisy, and later epochs have lower rates
SAMPLE = 8192  # labels that a softmax looks at where there are more: those of the batch, and others by chance

LOSSES: dict[str, Callable[[Tensor, Rows], Tensor]] = dict(softmax=losses.softmax, binary=losses.binary)


@dataclass(frozen=True)
class Settings:
    """Architecture and training of one network; the defaults are those of the published code for OSC.

    Args:
        architecture: The architecture: "deep" (hidden layers), "linear", or "both" (hidden layers with a linear path
            beside them).
        hidden: Units of a hidden layer.
        expansion: Width of the second hidden layer, as a multiple of `hidden`.
        dropout: Dropout of hidden layers.
        input_dropout: Dropout of features.
        feature_scaling: Feature scaling: "none", "rows", "columns" or "auto".
        loss: "head", the head's own, or one over label scores: "softmax" or "binary".
        epochs: Number of epochs that the schedule is made for.
        batch_size: Points of a batch.
        learning_rate: Learning rate of AdamW.
        schedule: "exponential" or "cosine" (down to zero after a short warm-up).
        gamma: Factor of the learning rate after each epoch of the exponential schedule.
        weight_decay: Weight decay.
        patience: Stop after this many epochs without a better nDCG@5 on the validation set; None never stops early.
        stop_epoch: Stop after this epoch, although the schedule would go on.

    Raises:
        BadValue: If a setting is out of range.

    >>> Settings(architecture="linear", epochs=30).batch_size
    64
    >>> Settings(architecture="tree")
    Traceback (most recent call last):
    carving.errors.BadValue: architecture must be one of 'deep', 'linear', 'both', got 'tree'
    """

    architecture: str = "deep"  # deep, linear or both
    hidden: int = 512
    expansion: int = 1
    dropout: float = 0.0
    input_dropout: float = 0.0
    feature_scaling: str = "none"  # none, rows, columns or auto
    loss: str = "head"  # the head's own, or one over the label scores: softmax, binary
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    schedule: str = "exponential"  # or cosine, down to zero after a short rise
    gamma: float = 1.0  # of the exponential schedule: the rate's factor after each epoch
    weight_decay: float = 0.0  # of weights (AdamW)
    patience: int | None = None  # epochs without a validation nDCG@5 as good as the best after which training ends
    stop_epoch: int | None = None  # the epoch after which training ends, where the schedule would go on

    def __post_init__(self) -> None:
        check_choice("architecture", self.architecture, ("deep", "linear", "both"))
        check_choice("loss", self.loss, ("head", *LOSSES))
        check_choice("schedule", self.schedule, ("exponential", "cosine"))
        check_choice("feature_scaling", self.feature_scaling, ("none", "rows", "columns", "auto"))
        for name in ("hidden", "expansion", "epochs", "batch_size"):
            check_integer(name, getattr(self, name), 1)
        for name in ("dropout", "input_dropout"):
            if not 0 <= check_number(name, getattr(self, name)) < 1:
                raise BadValue(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}.")
        for name in ("learning_rate", "gamma"):
            if not 0 < check_number(name, getattr(self, name)) < math.inf:
                raise BadValue(f"{name} must be a positive number, got {getattr(self, name)}.")
        if not 0 <= check_number("weight_decay", self.weight_decay) < math.inf:
            raise BadValue(f"weight_decay must be a finite number of at least 0, got {self.weight_decay}.")
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        if self.stop_epoch is not None:
            check_integer("stop_epoch", self.stop_epoch, 1, self.epochs)

    @property
    def last(self) -> int:
        """Last epoch, at most."""
        return self.stop_epoch or self.epochs


@dataclass
class Progress:
    """Losses and validation scores of a training run, one entry per epoch."""

    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)  # nDCG@5, a share of 1
    epochs: int = 0  # that will be done at most; 0 where something else is trained than a network

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        return len(self.losses)

    @property
    def best(self) -> int:
        """Index of the last epoch whose validation score is as good as the best; without validation, the last."""
        if not self.validation:
            return self.epoch - 1
        return int(np.flatnonzero(np.array(self.validation) >= max(self.validation) - ALIKE)[-1])

    def over(self, settings: Settings) -> bool:
        """Return whether training is complete."""
        if self.epoch >= settings.last:
            return True
        return settings.patience is not None and self.epoch - 1 - self.best >= settings.patience


OnEpoch = Callable[[Progress, float], None]  # called after a batch with the share of the epoch that is done
OnProgress = Callable[[str, Progress, float], None]  # the same for several networks: the name of the one comes first


def seeded(*parts: Label) -> int:
    """A seed for torch that these labels give."""
    return int(bits([canonical_path(parts)], 1, seed=0, purpose="training")[0, 0] >> np.uint64(1))


def make_network(data: Dataset, head: Head, settings: Settings, seed: int) -> Network:
    """A new network for the data and the head, its weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded("weights", seed))
        return network_of(Scaling.fitted(data.features, settings.feature_scaling), head.width, head.squashed, settings)


def network_of(scaling: Scaling, outputs: int, tanh: bool, settings: Settings) -> Network:
    """A network as the settings say, its weights drawn by torch's own generator."""
    return Network(
        scaling,
        outputs,
        architecture=settings.architecture,
        hidden=settings.hidden,
        expansion=settings.expansion,
        dropout=settings.dropout,
        input_dropout=settings.input_dropout,
        tanh=tanh,
    )


def split(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The data without, and the part for validation: a share of the points by chance."""
    if not 0 < share < 1:
        raise BadValue(f"validation must be between 0 and 1, got {share}.")
    order = np.random.Generator(np.random.Philox(seeded("validation", seed))).permutation(len(data))
    held = max(1, round(share * len(data)))
    if held >= len(data):
        raise BadValue(
            f"Too few points for a validation set (n_samples={len(data)}). Pass settings=Settings(...) and "
            "validation=0 to train one network without it."
        )
    return data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))


def silent(progress: Progress, share: float) -> None:
    """For those who do not want to hear how it goes."""


def train(
    network: Network,
    head: Head,
    data: Dataset,
    settings: Settings,
    *,
    seed: int,
    validation: Dataset | None = None,
    checkpoint: Path | None = None,
    on_progress: OnEpoch = silent,
) -> Progress:
    """Train in place; with validation the best epoch's weights are kept in the end."""
    if settings.patience is not None and validation is None:
        raise BadValue("patience needs a validation set. Pass validation, or patience=None.")
    modules, ranks = nn.ModuleDict(dict(network=network, head=head)), learners()
    optimizers = _optimizers(modules, settings)
    file = Checkpoint(checkpoint, fingerprint(data, validation, settings, head, seed), modules, optimizers)
    facts, best = _resumed(file, ranks) or (dict(epochs=settings.last), None)
    progress = Progress(**facts)
    finished = progress.over(settings)
    per_label = settings.loss == "binary"
    learning = Learning(modules, lambda head, outputs, sets: _loss(head, outputs, sets, settings), ranks, per_label)
    while not progress.over(settings):
        with torch.random.fork_rng(devices=[]):
            others = (ranks.rank,) if ranks.rank else ()  # whose chances are not those of the first
            torch.manual_seed(seeded("epoch", seed, progress.epoch, *others))
            network.train()
            loss = _epoch(learning, data, settings, optimizers, progress, seed, on_progress)
        progress.losses.append(loss)
        if validation is not None:
            progress.validation.append(validated(network, head, validation, ranks))
            if progress.best == progress.epoch - 1:
                best = _copied(modules)
        if not progress.over(settings):
            ranks.of_one(partial(file.write_if_due, asdict(progress), best))
        on_progress(progress, 0.0)
    if best is not None:
        modules.load_state_dict(best)
    if not finished:
        ranks.of_one(lambda: file.write_weights(asdict(progress)))
    network.eval()
    return progress


def _resumed(file: Checkpoint, ranks: Ranks) -> tuple[Facts, Weights | None] | None:
    """What a checkpoint gives back; of several ranks, which learn the same, every one reads it."""
    if ranks.size == 1:
        return file.resume()
    from carving import __version__

    ranks.check_same(version=f"{__version__} (torch {torch.__version__})", data_and_settings=file.identity)
    found = ranks.agreed(file.resume)
    ranks.check_same(checkpoint=None if found is None else found[0])
    return found


def _copied(modules: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in modules.state_dict().items()}


def _epoch(
    learning: Learning,
    data: Dataset,
    settings: Settings,
    optimizers: list[torch.optim.Optimizer],
    progress: Progress,
    seed: int,
    on_progress: OnEpoch,
) -> float:
    """The mean loss of one pass over the data."""
    epoch, steps, total = progress.epoch, math.ceil(len(data) / settings.batch_size), 0.0
    for step, indices in enumerate(batches(len(data), settings.batch_size, seeded("order", seed, epoch))):
        learning_rate = settings.learning_rate * factor(
            settings, epoch, (epoch * steps + step) / (settings.epochs * steps)
        )
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.zero_grad(set_to_none=True)
        total += learning.gradients(data, indices)
        for optimizer in optimizers:
            optimizer.step()
        if learning.ranks.size == 1:  # of several, all must see it at once
            _check_finite(total, epoch)
        on_progress(progress, (step + 1) / steps)
    return _check_finite(learning.total(total), epoch) / len(data)


def _check_finite(total: float, epoch: int) -> float:
    if not math.isfinite(total):
        raise BadValue(f"The loss became {total} in epoch {epoch + 1}. Lower the learning rate, or scale the features.")
    return total


@dataclass(frozen=True)
class Trainer:
    """What the networks of one model have in common: the head, the seed, where checkpoints lie, and who watches."""

    head: Head
    seed: int
    folder: Path | None = None
    on_progress: OnProgress | None = None

    def __call__(
        self, data: Dataset, settings: Settings, name: str, of: int | None = None, validation: Dataset | None = None
    ) -> tuple[Network, Progress]:
        """A new network, trained; its name (of so many) is that of its checkpoint and of its progress."""
        network = make_network(data, self.head, settings, self.seed)
        checkpoint = None if self.folder is None else self.folder / f"{name.replace(' ', '-')}.safetensors"
        title = name if of is None else f"{name} of {of}"

        def on_epoch(progress: Progress, share: float) -> None:
            if self.on_progress is not None:
                self.on_progress(title, progress, share)

        progress = train(
            network,
            self.head,
            data,
            settings,
            seed=self.seed,
            validation=validation,
            checkpoint=checkpoint,
            on_progress=on_epoch,
        )
        return network, progress


def batches(points: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
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
    own, inverse = sets.columns.unique(return_inverse=True)
    chance = torch.randint(head.count, (max(SAMPLE // 2, SAMPLE - len(own)),))
    fresh = chance[~torch.isin(chance, own)].unique().to(own.device)
    labels = torch.cat([own, fresh])
    scores = head.similarity(head.read(outputs), head.codes(labels))
    return scores, Rows(inverse, sets.starts, sets.values, len(labels))


def _optimizers(modules: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """AdamW, and for first layers of very many features an Adam that touches the rows of a batch alone."""
    lazy = [m.weight for m in modules.modules() if isinstance(m, Bag) and m.lazy]
    known = {id(weight) for weight in lazy}
    rest = [p for p in modules.parameters() if id(p) not in known]
    adam = torch.optim.AdamW(rest, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    return [adam, torch.optim.SparseAdam(lazy, lr=settings.learning_rate)] if lazy else [adam]


def predict(network: nn.Module, head: Head, features: csr_matrix, k: int, bias: Tensor | None = None) -> Best:
    """Scores and numbers (n, k) of each point's best labels."""
    network.eval()
    with torch.no_grad():
        parts = list(slices(features.shape[0], AT_ONCE)) or [slice(0, 0)]
        best = [head.top(network(rows_of(features, part)), k, bias) for part in parts]
    return Best(torch.cat([part.scores for part in best]), torch.cat([part.indices for part in best]))


def validated(network: nn.Module, head: Head, data: Dataset, ranks: Ranks) -> float:
    """nDCG@5 of a network on data, a share of 1; every rank predicts its part of the points."""
    k, points = min(5, head.count), len(data)
    own = data.features[points * ranks.rank // ranks.size : points * (ranks.rank + 1) // ranks.size]
    best = ranks.gather(predict(network, head, own, k).indices)
    return metrics.ndcg(torch.cat(best).numpy(), data.labels, k)


def fingerprint(data: Dataset, validation: Dataset | None, settings: Settings, head: Head, seed: int) -> str:
    """What a run is: another one must not go on from its checkpoint."""
    facts = [asdict(settings), repr(head), head.options, seed]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    if not isinstance(head.labels, range):
        digest.update(b"".join(map(canonical, head.labels)))
    parts = [data] if validation is None else [data, validation]
    for matrix in (matrix for part in parts for matrix in (part.features, part.labels)):
        digest.update(repr(matrix.shape).encode())
        for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

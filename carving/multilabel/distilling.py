"""Distillation of networks, matcher and rerankers into one small network: three layers in eight bits.

The scorer teaches. It is asked about the training points and, where these are words, about mixtures of two of them, and
the student learns what it says of all labels: how they stand to each other, and how loud all are together. A teacher
has answers for points that nobody labeled, so that the student may even become the better one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from carving.multilabel.data import Dataset
from carving.multilabel.maps import Map
from carving.multilabel.networks import LENGTH, Bag, Scaling
from carving.multilabel.rows import rows_of
from carving.multilabel.scorer import Matcher, Scorer, cut
from carving.multilabel.training import OnEpoch, OnProgress, Progress, Settings, batches, factor, seeded
from carving.multilabel.views import View, is_dense
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

UNITS = 16  # of the second hidden layer, times the root of the number of labels; the first has twice as many
EPOCHS = {True: 200, False: 40}  # of dense features, and of words
RATES = {True: 8e-3, False: 4e-3}
LESSONS = 6  # times that points of words are mixed anew; dense ones are asked about as they are
ROOM = 2**27  # scores of the teacher that are kept, in sixteen bits: 256 MiB
LARGEST = np.finfo(np.float32).max
LOUD = 0.1  # weight of how loud all labels are together, beside how they stand to each other


class Lesson(NamedTuple):
    """Points as the student sees them, and what the teacher says of them."""

    seen: csr_matrix | NDArray[np.float32]
    said: Tensor  # (n, L), in sixteen bits


def teachable(data: Dataset) -> bool:
    """Whether there is room for what a teacher says of all points."""
    return len(data) * data.labels.shape[1] <= ROOM


def widths(labels: int) -> tuple[int, int]:
    """The units of both hidden layers.

    >>> widths(101), widths(983)
    ((320, 160), (960, 480))
    """
    second = 32 * max(1, int(UNITS * math.sqrt(labels)) // 32)
    return 2 * second, second


def smaller(teacher: Scorer, data: Dataset) -> bool:
    """Whether a student would have fewer weights than its teacher: of very many labels and few features it has more."""
    sizes = data.features.shape[1], *widths(data.labels.shape[1]), data.labels.shape[1]
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes)) < teacher.count


def distilled(
    teacher: Scorer, data: Dataset, seed: int = 0, on_progress: OnProgress | None = None, name: str = "student"
) -> Matcher:
    """What the scorer says of points like these, but for its bias, in a matcher with hidden layers."""
    scaling = Scaling.fitted(data.features)
    view = View(shift=scaling.shift.numpy(), scale=scaling.scale.numpy(), length=LENGTH)
    lessons = [Lesson(view(points), _said(teacher, points, data.labels.shape[1])) for points in _asked(data, seed)]

    def on_batch(progress: Progress, share: float) -> None:
        if on_progress is not None:
            on_progress(name, progress, share)

    return _kept(view, _learned(lessons, teacher.bias, seed, on_batch))


def _asked(data: Dataset, seed: int) -> Iterator[csr_matrix]:
    """The points as they are, or several times as words that are mixed."""
    if is_dense(data.features):
        yield data.features
        return
    chance = np.random.Generator(np.random.Philox(seeded("lessons", seed)))
    for _ in range(min(LESSONS, ROOM // (len(data) * data.labels.shape[1]))):
        yield mixed(data.features, chance)


def _learned(lessons: list[Lesson], bias: Tensor | None, seed: int, on_batch: OnEpoch) -> nn.Sequential:
    """A network that learned the lessons one after the other, again and again."""
    dense = isinstance(lessons[0].seen, np.ndarray)
    (points, labels), features = lessons[0].said.shape, lessons[0].seen.shape[1]
    batch = 128 if points < 8_000 else 256
    settings = Settings(epochs=EPOCHS[dense], batch_size=batch, learning_rate=RATES[dense], schedule="cosine")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded("student", seed))
        first, second = widths(labels)
        bag, last = Bag(features, first, dense), nn.Linear(second, labels)
        network = nn.Sequential(bag, nn.ReLU(), nn.Linear(first, second), nn.ReLU(), last)
    optimizer, progress = torch.optim.AdamW(network.parameters(), fused=True), Progress(epochs=settings.epochs)
    for epoch in range(settings.epochs):
        lesson, total = lessons[epoch % len(lessons)], 0.0
        order = list(batches(points, batch, seeded("order", seed, epoch)))
        for step, rows in enumerate(order):
            done = (epoch + step / len(order)) / settings.epochs
            optimizer.param_groups[0]["lr"] = settings.learning_rate * factor(settings, epoch, done)
            optimizer.zero_grad(set_to_none=True)
            scores = network(_batch(lesson.seen, rows))
            loss = lost(scores if bias is None else scores + bias, lesson.said[torch.from_numpy(rows)].float())
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows)
            on_batch(progress, (step + 1) / len(order))
        progress.losses.append(total / points)
        on_batch(progress, 0.0)
    return network


def lost(scores: Tensor, said: Tensor) -> Tensor:
    """How far scores (n, L) are from what was said: as logits, and in how loud all labels are together."""
    louder = scores.logsumexp(1) - said.logsumexp(1)
    return cross_entropy(scores, said.softmax(1)) + LOUD * louder.square().mean()


def mixed(features: csr_matrix, chance: np.random.Generator) -> csr_matrix:
    """Half of the points as they are, the others with a share of their words and the rest of another point's."""
    points = features.shape[0]
    shares = np.where(chance.random(points) < 0.5, chance.random(points), 1.0)
    others = features[chance.permutation(points)]
    made = _thinned(features, shares, chance) + _thinned(others, 1 - shares, chance)
    np.clip(made.data, -LARGEST, LARGEST, out=made.data)  # where two large numbers add up to infinity
    return made


def _thinned(features: csr_matrix, shares: NDArray[np.float64], chance: np.random.Generator) -> csr_matrix:
    """Each row with a share of its stored numbers."""
    kept = chance.random(features.nnz) < np.repeat(shares, np.diff(features.indptr))
    parts = features.data * kept, features.indices, features.indptr
    thinned = load("scipy.sparse").csr_matrix(parts, features.shape, copy=True)
    thinned.eliminate_zeros()
    return thinned


def _said(teacher: Scorer, features: csr_matrix, labels: int) -> Tensor:
    """What the teacher says of points, some at a time."""
    said = torch.empty(features.shape[0], labels, dtype=torch.float16)
    most = torch.finfo(said.dtype).max
    for part in cut(features.shape[0], labels):
        said[part] = teacher.scores(features[part]).clamp(-most, most)
    return said


def _batch(seen: csr_matrix | NDArray[np.float32], rows: NDArray[np.int64]) -> object:
    return torch.from_numpy(seen[rows]) if isinstance(seen, np.ndarray) else rows_of(seen, rows)


def _kept(view: View, network: nn.Sequential) -> Matcher:
    """The layers in eight bits."""
    maps = []
    for layer in network:
        if isinstance(layer, Bag | nn.Linear):
            weights = layer.weight if isinstance(layer, Bag) else layer.weight.mT
            maps.append(Map.dense(weights.detach().numpy(), layer.bias.detach().numpy()))
    return Matcher(view, maps[-1], tuple(maps[:-1]))

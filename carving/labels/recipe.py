"""Our recipe for OSC heads: one for all data sets, which looks at a validation part for all that depends on the data.

Three networks are trained with the head: a linear one and a deep one (with a linear path beside it) towards the
direction of the labels' codes, and one that is deep alone, with more dropout, by cross entropy over the label scores.
What each is good at differs, and outputs of networks add as memories do, so the blend costs no more to score than one
of them. The validation part says when each stops, how much of each goes into the blend, and how much rare labels are to
be favoured. Where there are few points, the networks are then trained anew on all of them, for as many epochs as were
best.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.chunks import slices
from carving.labels import losses, metrics
from carving.labels.data import Dataset
from carving.labels.heads import Head
from carving.labels.networks import DENSE, Blend, Network
from carving.labels.rows import Rows, rows_of
from carving.labels.scoring import best_of
from carving.labels.training import AT_ONCE, Progress, Settings, make_network, split, train

FEW = 20_000  # points up to which networks are trained again on all of them
HELD = 4_000  # points at most that are held back for validation, where there are more
BATCHES = {32: 2_000, 64: 8_000, 128: 20_000}  # points of a batch, by how many there are in all; else 256
WIDE = 2**15  # features above which hidden layers are half as wide: the first one takes most of the time there
STEPS = 700  # that are taken at least, as far as 200 epochs allow
SCORES = 2**26  # of label scores that are kept at a time for each network, to choose the blend
PICKS = 8  # draws of the greedy selection: shares are multiples of an eighth
SCALES = tuple(2.0 ** (0.5 * i) for i in range(-2, 14))  # of a network's outputs, as logits
FAVOURS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # of rare labels: times the logarithm of one over the propensity

Watch = Callable[[str, Progress, float], None]  # which network of how many; its progress; the share of the epoch


def head_options(labels: int) -> dict[str, int]:
    """Order, kept and whole dimensions: six core numbers a label, so that few codes are alike; of many labels fewer."""
    kept = min(math.sqrt(6 * labels), 42 * max(1, (labels / 1000) ** 0.25))
    k1 = min(64, max(24, math.ceil(kept)))
    return dict(p=2, k1=k1, d=3 * k1)


def trials(data: Dataset, epochs: int | None = None) -> list[Settings]:
    """The networks that are tried."""
    points, dense = len(data), data.features.nnz > DENSE * data.features.shape[0] * data.features.shape[1]
    batch = next((size for size, below in BATCHES.items() if points < below), 256)
    epochs = epochs or max(4, min(15, round(400_000 / points)), min(200, math.ceil(STEPS * batch / points)))
    common: dict[str, Any] = dict(
        hidden=1024 if data.features.shape[1] <= WIDE else 512,
        normalise="auto",
        schedule="cosine",
        epochs=epochs,
        batch=batch,
        rate=1e-3 * math.sqrt(batch / 64),
        patience=max(5, epochs // 4),
    )
    # The fewer points, the more is dropped; of dense features nothing: they are few, and each tells its own.
    words = 0.0 if dense else min(0.5, max(0.1, 0.5 * 5_000 / points))
    return [
        Settings(trunk="linear", loss="head", input_drop=words, **common),
        Settings(trunk="deep", loss="softmax", input_drop=words, drop=0.2 + 0.6 * words, **common),
        # Without dropout of words it learns faster, and by heart: half of the epochs.
        Settings(trunk="both", loss="head", drop=0.2, **(common | dict(epochs=epochs // 2 + 1))),
    ]


@dataclass(frozen=True)
class Chosen:
    """What the validation part chose, and what it said: shares of 1."""

    settings: list[Settings]
    weights: list[float]
    units: list[bool]
    favour: float
    ndcg: float
    psndcg: float


def fit(
    data: Dataset,
    head: Head,
    *,
    seed: int,
    tried: list[Settings],
    folder: Path | None = None,
    watch: Watch | None = None,
) -> tuple[Blend, Chosen]:
    """The blend for these training points, and how it was chosen."""

    def trained(
        data: Dataset, held: Dataset | None, settings: Settings, name: str, of: int
    ) -> tuple[Network, Progress]:
        network = make_network(data, head, settings, seed)
        told = None if watch is None else lambda progress, share: watch(f"{name} of {of}", progress, share)
        checkpoint = None if folder is None else folder / f"{name.replace(' ', '-')}.safetensors"
        how: dict[str, Any] = dict(seed=seed, validation=held, checkpoint=checkpoint, watch=told)
        return network, train(network, head, data, settings, **how)

    again = len(data) <= FEW
    most, rest = split(data, 0.15 if again else min(0.1, HELD / len(data)), seed)
    networks: dict[int, Network] = {}
    outputs, ended = [], []
    for number, settings in enumerate(tried):
        network, progress = trained(most, rest, settings, f"trial {number + 1}", len(tried))
        if not again:
            networks[number] = network
        outputs.append(outputs_of(network, rest))
        ended.append(replace(settings, patience=None, until=progress.best + 1))
    shares, units, favour, found = blended(outputs, ended, head, rest, metrics.propensities(most.labels))
    kept = [number for number, share in enumerate(shares) if share > 0]
    chosen = Chosen(
        settings=[ended[i] for i in kept],
        weights=[shares[i] for i in kept],
        units=[units[i] for i in kept],
        favour=favour,
        ndcg=found[0],
        psndcg=found[1],
    )
    if again:
        names = {i: f"network {number}" for number, i in enumerate(kept, start=1)}
        networks = {i: trained(data, None, ended[i], name, len(kept))[0] for i, name in names.items()}
    return Blend([networks[i] for i in kept], chosen.weights, chosen.units), chosen


def outputs_of(network: Network, data: Dataset) -> Tensor:
    """A network's outputs for all points, (n, width)."""
    network.eval()
    with torch.no_grad():
        parts = slices(len(data), AT_ONCE)
        return torch.cat([network(rows_of(data.features, part)) for part in parts])


def blended(
    outputs: list[Tensor], settings: list[Settings], head: Head, data: Dataset, propensities: Any
) -> tuple[list[float], list[bool], float, tuple[float, float]]:
    """Weights of the outputs, which are brought to length 1 before, how rare labels are favoured, and the measures.

    Scores of OSC add as outputs do, so each network is scored once; where labels are very many, for fewer points.
    """
    some = np.linspace(0, len(data) - 1, min(len(data), max(1, SCORES // head.count))).round().astype(np.int64)
    data, units = data.take(some), [one.loss == "head" for one in settings]
    sets, scored, scales = rows_of(data.labels), [], []
    for output, unit in zip(outputs, units, strict=True):
        with torch.no_grad():
            scores = head(normalize(output[some], dim=1) if unit else output[some])
        scales.append(scale_of(scores, sets))
        scored.append(scores.mul_(scales[-1]))
    shares, found = weighed(scored, data, propensities)
    blend = _added(shares, scored)
    best = 0.0
    for favour in FAVOURS[1:]:
        now = measured(blend, data, propensities, bias_of(propensities, favour))
        if sum(now) > sum(found):
            best, found = favour, now
    return [share * scale for share, scale in zip(shares, scales, strict=True)], units, best, found


def bias_of(propensities: Any, favour: float) -> Tensor | None:
    """What is added to the scores so that rare labels are favoured."""
    return torch.from_numpy(favour * -np.log(propensities)).float() if favour else None


def scale_of(scores: Tensor, sets: Rows) -> float:
    """The factor that makes the label scores (n, L) the best logits."""
    return min(SCALES, key=lambda scale: float(losses.softmax(scale * scores, sets)))


def measured(scores: Tensor, data: Dataset, propensities: Any, bias: Tensor | None = None) -> tuple[float, float]:
    """nDCG@5 and PSnDCG@5 of the scores (n, L)."""
    k = min(5, scores.shape[1])
    ranked = best_of(scores if bias is None else scores + bias, k)[1].numpy()
    return metrics.ndcg(ranked, data.labels, k), metrics.psndcg(ranked, data.labels, k, propensities)


def weighed(scored: list[Tensor], data: Dataset, propensities: Any) -> tuple[list[float], tuple[float, float]]:
    """Shares that sum to 1, by greedy selection: again and again the one is added that makes the blend best."""
    known: dict[tuple[int, ...], tuple[float, float]] = {}

    def tried(counts: tuple[int, ...]) -> tuple[float, float]:
        ratio = tuple(int(c) for c in np.array(counts) // np.gcd.reduce(counts))
        if ratio not in known:
            known[ratio] = measured(_added(ratio, scored), data, propensities)
        return known[ratio]

    counts, best = (0,) * len(scored), (0,) * len(scored)
    for _ in range(PICKS):
        options = [tuple(c + (i == j) for j, c in enumerate(counts)) for i in range(len(scored))]
        counts = max(options, key=lambda option: sum(tried(option)))
        if not any(best) or sum(tried(counts)) > sum(tried(best)):
            best = counts
    return [count / sum(best) for count in best], tried(best)


def _added(weights: Sequence[float], scored: list[Tensor]) -> Tensor:
    total = torch.zeros_like(scored[0])
    for weight, scores in zip(weights, scored, strict=True):
        total.add_(scores, alpha=weight)
    return total

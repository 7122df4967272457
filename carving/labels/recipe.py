"""Our recipe for OSC heads: one for all data sets, which looks at a validation part for all that depends on the data.

Three networks are trained with the head: a linear one and a deep one (with a linear path beside it) towards the
direction of the labels' codes, and one that is deep alone, with more dropout, by cross entropy over the label scores.
What each is good at differs, and outputs of networks add as memories do, so the blend costs no more to score than one
of them. The validation part says when each stops, how much of each goes into the blend, and how much rare labels are to
be favoured. Where there are few points, the networks are then trained anew on all of them, for as many epochs as were
best.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.chunks import slices
from carving.labels import metrics
from carving.labels.blending import FAVOURS, Chosen, Propensities, Quality, added, bias_of, measured, scale_of, weighed
from carving.labels.data import Dataset
from carving.labels.heads import Head
from carving.labels.networks import DENSE, Blend, Network
from carving.labels.rows import rows_of
from carving.labels.scorer import Scorer
from carving.labels.training import AT_ONCE, Settings, Trainer, split

FEW = 20_000  # points up to which networks are trained again on all of them
HELD = 4_000  # points at most that are held back for validation, where there are more
BATCHES = {32: 2_000, 64: 8_000, 128: 20_000}  # points of a batch, by how many there are in all; else 256
WIDE = 2**15  # features above which hidden layers are half as wide: the first one takes most of the time there
STEPS = 700  # that are taken at least, as far as 200 epochs allow
SCORES = 2**26  # of label scores that are kept at a time for each network, to choose the blend


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


def single(
    data: Dataset, head: str, trunk: str | None = None, epochs: int | None = None, patience: int | None = None
) -> Settings | None:
    """One network where it is wanted: of the networks that are tried for OSC, the published way for other heads.

    None stands for the whole recipe: an OSC head without a trunk.
    """
    if head != "OSC":
        return Settings(trunk=trunk or "deep", epochs=epochs or 25, gamma=0.98, patience=patience)
    if trunk is None:
        return None
    tried = {settings.trunk: settings for settings in trials(data, epochs)}
    return replace(tried.get(trunk, tried["both"]), trunk=trunk, patience=patience)


class Blended(NamedTuple):
    """How the outputs of networks are blended."""

    weights: list[float]
    units: list[bool]  # which outputs are brought to length 1 before
    favour: float  # of rare labels
    quality: Quality


def fit(data: Dataset, trainer: Trainer, tried: list[Settings]) -> tuple[Scorer, Chosen]:
    """The blend for these training points, and how it was chosen."""
    again = len(data) <= FEW
    most, rest = split(data, 0.15 if again else min(0.1, HELD / len(data)), trainer.seed)
    networks: list[Network] = []
    outputs, ended = [], []
    for number, settings in enumerate(tried, start=1):
        network, progress = trainer(most, settings, f"trial {number}", len(tried), rest)
        networks += [] if again else [network]
        outputs.append(outputs_of(network, rest))
        ended.append(replace(settings, patience=None, until=progress.best + 1))
    blend = blended(outputs, ended, trainer.head, rest, metrics.propensities(most.labels))
    kept = [number for number, weight in enumerate(blend.weights) if weight > 0]
    chosen = _chosen(blend, ended, kept)
    if again:
        final = enumerate(chosen.settings, start=1)
        networks = [trainer(data, settings, f"network {number}", len(kept))[0] for number, settings in final]
    else:
        networks = [networks[i] for i in kept]
    return Scorer(trainer.head, Blend(networks, chosen.weights, chosen.units)), chosen


def _chosen(blend: Blended, settings: list[Settings], kept: list[int]) -> Chosen:
    weights, units, favour, quality = blend
    return Chosen(
        settings=[settings[i] for i in kept],
        weights=[weights[i] for i in kept],
        units=[units[i] for i in kept],
        favour=favour,
        ndcg=quality.ndcg,
        psndcg=quality.psndcg,
    )


def outputs_of(network: Network, data: Dataset) -> Tensor:
    """A network's outputs for all points, (n, width)."""
    network.eval()
    with torch.no_grad():
        parts = slices(len(data), AT_ONCE)
        return torch.cat([network(rows_of(data.features, part)) for part in parts])


def blended(
    outputs: list[Tensor], settings: list[Settings], head: Head, data: Dataset, propensities: Propensities
) -> Blended:
    """How the outputs are best blended for these labels.

    Scores of OSC add as outputs do, so each network is scored once; where labels are very many, for fewer points.
    """
    points = np.linspace(0, len(data) - 1, min(len(data), max(1, SCORES // head.count))).round().astype(np.int64)
    data, units = data.take(points), [network.loss == "head" for network in settings]
    sets, scored, scales = rows_of(data.labels), [], []
    for output, unit in zip(outputs, units, strict=True):
        with torch.no_grad():
            scores = head(normalize(output[points], dim=1) if unit else output[points])
        scales.append(scale_of(scores, sets))
        scored.append(scores.mul_(scales[-1]))
    shares, quality = weighed(scored, data, propensities)
    blend = added(shares, scored)
    best = 0.0
    for favour in FAVOURS[1:]:
        favoured = measured(blend, data, propensities, bias_of(propensities, favour))
        if sum(favoured) > sum(quality):
            best, quality = favour, favoured
    return Blended([share * scale for share, scale in zip(shares, scales, strict=True)], units, best, quality)

"""Our recipe for OSC heads: one for all data sets, which looks at a validation part to choose what depends on the data.

Each kind of trunk is tried on most of the training points. Greedy selection on the rest says how much of each goes into
the blend (outputs of networks add, as memories do). Then the chosen ones are trained anew on all training points, for
as many epochs as were best.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from carving.labels import metrics
from carving.labels.data import Dataset
from carving.labels.heads import Head
from carving.labels.networks import Blend, Network
from carving.labels.rows import rows_of
from carving.labels.training import AT_ONCE, Progress, Settings, make_network, split, train
from carving.scheme import slices

SHARE = 0.15  # of the training points, for validation
LOOKED_AT = 4000  # validation points at most that blends are compared on
PICKS = 8  # draws of the greedy selection: weights are multiples of an eighth

Watch = Callable[[str, Progress, float], None]  # which network of how many; its progress; the share of the epoch


def head_options(labels: int) -> dict[str, int]:
    """Order, kept and whole dimensions for so many labels: about two and a half core numbers a label, to a limit."""
    k1 = min(48, max(16, math.ceil(math.sqrt(2.5 * labels))))
    return dict(p=2, k1=k1, d=3 * k1)


def trials(points: int, epochs: int | None = None) -> list[Settings]:
    """The trunks that are tried."""
    batch = 64 if points < 8_000 else 128 if points < 20_000 else 256
    epochs = epochs or max(4, min(20, round(1_000_000 / points)))
    common: dict[str, Any] = dict(normalise="auto", loss="softmax", schedule="cosine", epochs=epochs, batch=batch)
    return [
        Settings(trunk="linear", input_drop=0.5, rate=1e-3 * math.sqrt(batch / 64), patience=4, **common),
        Settings(
            trunk="both", hidden=1024, drop=0.5, input_drop=0.2, rate=1e-3 * math.sqrt(batch / 64), patience=4, **common
        ),
    ]


@dataclass(frozen=True)
class Chosen:
    """What the validation part chose, and what it said: shares of 1."""

    settings: list[Settings]
    weights: list[float]
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
    chosen = choose(data, head, seed=seed, tried=tried, folder=folder, watch=watch)
    networks = []
    for number, settings in enumerate(chosen.settings):
        label = f"network {number + 1} of {len(chosen.settings)}"
        networks.append(_trained(data, None, head, settings, seed, f"member {number}", label, folder, watch)[0])
    return Blend(networks, chosen.weights), chosen


def choose(
    data: Dataset,
    head: Head,
    *,
    seed: int,
    tried: list[Settings],
    folder: Path | None = None,
    watch: Watch | None = None,
) -> Chosen:
    """Try each setting on a part of the points, and weigh them on the rest."""
    most, rest = split(data, SHARE, seed)
    cores, ended = [], []
    seen = rest.take(slice(0, LOOKED_AT))
    for number, settings in enumerate(tried):
        label = f"trial {number + 1} of {len(tried)}"
        network, progress = _trained(most, rest, head, settings, seed, f"trial {number}", label, folder, watch)
        cores.append(outputs_of(network, seen))
        ended.append(replace(settings, patience=None, until=progress.best + 1))
    weights, ndcg, psndcg = weighed(cores, head, seen, metrics.propensities(most.labels))
    kept = [number for number, weight in enumerate(weights) if weight > 0]
    return Chosen([ended[i] for i in kept], [weights[i] for i in kept], ndcg, psndcg)


def _trained(
    data: Dataset,
    validation: Dataset | None,
    head: Head,
    settings: Settings,
    seed: int,
    name: str,
    label: str,
    folder: Path | None,
    watch: Watch | None,
) -> tuple[Network, Progress]:
    network = make_network(data, head, settings, seed)
    told = None if watch is None else lambda progress, share: watch(label, progress, share)
    checkpoint = None if folder is None else folder / f"{name.replace(' ', '-')}.safetensors"
    progress = train(network, head, data, settings, seed=seed, validation=validation, checkpoint=checkpoint, watch=told)
    return network, progress


def outputs_of(network: Network, data: Dataset) -> Tensor:
    """A network's outputs for all points, (n, width)."""
    network.eval()
    with torch.no_grad():
        parts = slices(len(data), AT_ONCE)
        return torch.cat([network(rows_of(data.features, part)) for part in parts])


def weighed(cores: list[Tensor], head: Head, data: Dataset, propensities: Any) -> tuple[list[float], float, float]:
    """Weights that sum to 1, by greedy selection: again and again the one is added that makes the blend best."""
    k = min(5, head.count)
    known: dict[tuple[int, ...], tuple[float, float]] = {}

    def measured(counts: tuple[int, ...]) -> tuple[float, float]:
        shares = tuple(np.array(counts) // np.gcd.reduce(counts))
        if shares not in known:
            parts = [count * core for count, core in zip(counts, cores, strict=True) if count]
            blend = torch.stack(parts).sum(0) / sum(counts)
            ranked = head.top(blend, k)[1].numpy()
            pair = metrics.ndcg(ranked, data.labels, k), metrics.psndcg(ranked, data.labels, k, propensities)
            known[shares] = pair
        return known[shares]

    counts, best = (0,) * len(cores), (0,) * len(cores)
    for _ in range(PICKS):
        options = [tuple(c + (i == j) for j, c in enumerate(counts)) for i in range(len(cores))]
        counts = max(options, key=lambda option: sum(measured(option)))
        if not any(best) or sum(measured(counts)) > sum(measured(best)):
            best = counts
    ndcg, psndcg = measured(best)
    return [count / sum(best) for count in best], ndcg, psndcg

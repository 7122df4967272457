"""Networks over sparse rows: scaled features, a first layer that is an embedding bag, and what comes after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, normalize

from carving.multilabel.rows import Rows
from carving.validate import check_choice

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

DENSE = 0.25  # from this share of stored features on, batches are made dense: it is faster, and no larger
LENGTH = 8.0  # of a normalized row: about that of a text of 64 words, each counted once
LAZY = 2**26  # weights of a first layer from which on only the rows that a batch touches are updated
WIDE = 2**25  # weights of a linear trunk from which on it goes through a bottleneck

Features = Rows | Tensor  # a batch, sparse or dense


class Scaling(nn.Module):
    """Features brought to a common size: rows to one length, or (dense data) columns to mean 0 and deviation 1."""

    def __init__(self, features: int, how: str = "none", dense: bool = False) -> None:
        super().__init__()
        self.features = features
        self.how = check_choice("normalize", how, ("none", "rows", "columns"))
        self.dense = dense or how == "columns"  # whether batches are made dense
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", torch.zeros(features if how == "columns" else 0))
        self.register_buffer("scale", torch.ones(features if how == "columns" else 0))

    @classmethod
    def fitted(cls, features: csr_matrix, how: str = "auto") -> Self:
        """The scaling for these features; "auto" takes columns for dense data and rows for sparse."""
        check_choice("normalize", how, ("auto", "none", "rows", "columns"))
        dense = features.nnz > DENSE * features.shape[0] * features.shape[1]
        if how == "auto":
            how = "columns" if dense else "rows"
        scaling = cls(features.shape[1], how, dense)
        if how == "columns":
            points, wide = features.shape
            values, columns = features.data.astype(np.float64), features.indices
            mean = np.bincount(columns, values, wide) / points
            zeros = points - np.bincount(columns, minlength=wide)
            square = np.bincount(columns, (values - mean[columns]) ** 2, wide) + zeros * mean**2
            deviation = np.sqrt(square / points)
            constant = deviation <= 1e-6 * np.abs(mean)  # tells nothing, whatever a test point has there
            scaling.shift.copy_(torch.from_numpy(mean))
            scaling.scale.copy_(torch.from_numpy(np.where(constant, 0, 1 / np.where(constant, 1, deviation))))
        return scaling

    def forward(self, rows: Rows) -> Features:
        """The batch, scaled."""
        if self.how == "columns":
            return (rows.dense() - self.shift) * self.scale
        if self.how == "rows":
            owners, empty = rows.owners, rows.values.new_zeros(len(rows))
            largest = empty.scatter_reduce(0, owners, rows.values.abs(), "amax")[owners]
            values = rows.values / torch.where(largest > 0, largest, 1.0)  # whose squares neither vanish nor overflow
            norms = empty.index_add(0, owners, values.square()).sqrt()[owners]
            rows = Rows(rows.columns, rows.starts, values * (LENGTH / norms.clamp_min(1.0)), rows.width)
        return rows.dense() if self.dense else rows


def thinned(batch: Features, share: float, training: bool) -> Features:
    """Input dropout: stored features left out at random, the others made larger."""
    if isinstance(batch, Tensor):
        return dropout(batch, share, training)
    return Rows(batch.columns, batch.starts, dropout(batch.values, share, training), batch.width)


class Bag(nn.EmbeddingBag):
    """A linear layer whose input may be sparse: the weighted sum of the features' vectors, and a bias."""

    def __init__(self, features: int, outputs: int, dense: bool = False) -> None:
        bound = features**-0.5  # as torch.nn.Linear
        lazy = not dense and features * outputs > LAZY
        weight = torch.empty(features, outputs).uniform_(-bound, bound)
        # DistributedDataParallel asks torch's own class whether its gradients are sparse.
        super().__init__(features, outputs, mode="sum", sparse=lazy, include_last_offset=True, _weight=weight)
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    @property
    def lazy(self) -> bool:
        """Whether only the rows that a batch touches are updated."""
        return self.sparse

    def forward(self, batch: Features) -> Tensor:  # type: ignore[override]
        """The layer's outputs, (n, outputs)."""
        if isinstance(batch, Tensor):
            return batch @ self.weight + self.bias
        summed = embedding_bag(
            batch.columns,
            self.weight,
            batch.starts,
            mode="sum",
            sparse=self.sparse,
            per_sample_weights=batch.values,
            include_last_offset=True,
        )
        return summed + self.bias


class Network(nn.Module):
    """Scaled features, thinned, through a trunk: a hidden network, one linear map, or the sum of both.

    The hidden network is the published one: two hidden layers, of `hidden` and `hidden * expansion` units.
    """

    def __init__(
        self,
        scaling: Scaling,
        outputs: int,
        *,
        architecture: str = "deep",
        hidden: int = 512,
        expansion: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        tanh: bool = False,
    ) -> None:
        super().__init__()
        check_choice("architecture", architecture, ("deep", "linear", "both"))
        self.scaling, self.input_dropout, features = scaling, input_dropout, scaling.features
        self.deep: nn.Sequential | None = None
        self.linear: nn.Module | None = None
        if architecture != "linear":
            self.deep = nn.Sequential(
                Bag(features, hidden, scaling.dense),
                nn.LeakyReLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden, hidden * expansion),
                nn.LeakyReLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden * expansion, outputs),
            )
        if architecture != "deep":
            wide = features * outputs <= WIDE  # else through a bottleneck: still linear, of lower rank
            first = Bag(features, outputs if wide else hidden, scaling.dense)
            self.linear = first if wide else nn.Sequential(first, nn.Linear(hidden, outputs))
        self.last: nn.Module = nn.Tanh() if tanh else nn.Identity()

    def forward(self, rows: Rows) -> Tensor:
        """The outputs of a batch of points, (n, outputs)."""
        batch = thinned(self.scaling(rows), self.input_dropout, self.training)
        outputs: list[Tensor] = [
            architecture(batch) for architecture in (self.deep, self.linear) if architecture is not None
        ]
        return self.last(outputs[0] if len(outputs) == 1 else outputs[0] + outputs[1])


class Blend(nn.Module):
    """Several networks as one: memories add, so that the weighted sum of their outputs is an output as well.

    Outputs of networks that were trained for their direction alone (`units`) are brought to length 1 before.
    """

    def __init__(self, networks: list[Network], weights: list[float], units: list[bool]) -> None:
        super().__init__()
        self.networks, self.weights, self.units = nn.ModuleList(networks), list(weights), list(units)
        self.scalings = [(network.scaling.how, network.scaling.dense) for network in networks]
        self.features = networks[0].scaling.features

    def forward(self, rows: Rows) -> Tensor:
        """The outputs of a batch of points, (n, outputs)."""
        outputs = (network(rows) for network in self.networks)
        units = (normalize(out, dim=1) if unit else out for out, unit in zip(outputs, self.units, strict=True))
        return torch.stack([weight * unit for weight, unit in zip(self.weights, units, strict=True)]).sum(0)

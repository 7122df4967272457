"""Label heads: label codes behind any network, so that its last layer needs no output per label.

    head = OSCHead(labels=205_443, d=300)
    network = torch.nn.Sequential(trunk, torch.nn.Linear(512, head.width))
    head.loss(network(x), y).backward();  head.top(network(x), 5)

The output of the network is read as a memory of two contexts, "present" and, optionally, "missing". The code of a label
follows from its name, so that nothing proportional to the number of labels has to be stored or learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from carving.errors import BadValue
from carving.inference.top_k import Best
from carving.multilabel import scoring
from carving.multilabel.rows import LabelSets, Rows, label_sets
from carving.symbols import codec
from carving.symbols.codec import Value
from carving.tiling import slices
from carving.validate import check_integer, check_tensor, listed

PRESENT, MISSING = "present", "missing"
CHUNK = 4096  # labels made at a time
KEPT = 2**24  # numbers of codes that may be kept, so that they need not be made again and again

Indices = slice | Tensor  # of labels
ALL = slice(None)


class Head(nn.Module, ABC):
    """Base class of label heads: torch modules that read `width` outputs of a network by a code per label.

    Args:
        labels: The number of labels, or their names.
        missing: Whether there is a role for missing labels, with a term of the loss.
        absolute: Whether scores are absolute values.
        trainable: Whether the codes are parameters.
        cached: Whether the vectors that codes are made of are kept in memory; otherwise they are drawn again when
            needed.
        seed: Seed of the codes.
        dtype: torch.float32 or torch.float64.

    `width` is the number of outputs that the network must have, `core` the number of elements of a code, `squashed`
    whether the published network ends with tanh, and `options` the arguments that construct the same head, without
    `labels` and `dtype`.
    """

    width: int  # the network's outputs
    core: int  # the numbers of a code
    squashed: bool  # whether the published network ends with tanh for this head
    options: dict[str, object]  # the arguments that make the head again, labels and dtype aside

    def __init__(
        self,
        labels: int | Sequence[Value],
        *,
        missing: bool = False,
        absolute: bool = False,
        trainable: bool = False,
        cached: bool = True,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if isinstance(labels, int | np.integer):
            self.labels: Sequence[Value] = range(check_integer("labels", labels, 1))
        else:
            self.labels = listed(labels, "labels")
            if len({codec.canonical(label) for label in self.labels}) < len(self.labels):
                raise BadValue(
                    "labels must be distinct, got a label twice. Rename or merge the two, or pass their number."
                )
        self.missing, self.absolute, self.trainable, self.cached = missing, absolute, trainable, cached or trainable
        self.seed, self.dtype = check_integer("seed", seed, 0, 2**64 - 1), dtype
        self.options = dict(missing=missing, absolute=absolute, trainable=trainable, cached=cached, seed=self.seed)
        self._sums: dict[str, Tensor] = {}
        self._kept: Tensor | None = None
        self._numbers: dict[str, int] | None = None  # of the labels that have names

    @property
    def count(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the head: ("present",) or ("present", "missing")."""
        return (PRESENT, MISSING) if self.missing else (PRESENT,)

    @property
    @abstractmethod
    def _reference(self) -> Tensor:
        """A tensor of the head, which tells its device and its kind of numbers."""

    @abstractmethod
    def read(self, outputs: Tensor, role: str = PRESENT) -> Tensor:
        """Return what a role reads from the outputs of the network: (n, width) to (n, core)."""

    @abstractmethod
    def codes(self, indices: Indices = ALL, role: str = PRESENT) -> Tensor:
        """Return the codes of labels in a role, (m, core)."""

    @abstractmethod
    def sum_codes(self, sets: Rows, role: str = PRESENT) -> Tensor:
        """Return the sum of the codes of each point's labels, (n, core); linear in the number of these labels."""

    @abstractmethod
    def _sum(self, indices: slice, role: str) -> Tensor:
        """The sum of the codes of these labels, (core,)."""

    @abstractmethod
    def similarity(self, cores: Tensor, codes: Tensor) -> Tensor:
        """Return the scores (n, m) of m codes (m, core) for n cores (n, core)."""

    @abstractmethod
    def loss(self, outputs: Tensor, labels: LabelSets) -> Tensor:
        """Return the published loss of this head, a scalar.

        Args:
            outputs: Outputs of the network, (n, width).
            labels: Label sets of the n points: a list of lists, zeros and ones (n, L) as an array or tensor, or a CSR
                matrix.
        """

    @final
    def sum_all_codes(self, role: str = PRESENT) -> Tensor:
        """Return the sum of the codes of all labels in a role, (core,); it is cached unless codes are trained."""
        if self.trainable:
            return self._everything(role)
        if role not in self._sums:
            with torch.inference_mode(False):
                self._sums[role] = self._everything(role)
        return self._sums[role]

    @final
    def _everything(self, role: str) -> Tensor:
        total = self._reference.new_zeros(self.core)
        for part in slices(self.count, CHUNK):
            total = total + self._sum(part, role)
        return total

    @final
    def sum_other_codes(self, sets: Rows, role: str = MISSING) -> Tensor:
        """Return the sum of the codes of all labels that a point does not have, (n, core)."""
        return self.sum_all_codes(role) - self.sum_codes(sets, role)

    @final
    def label_sets(self, labels: LabelSets, points: int) -> Rows:
        """Return label sets as rows, one per point; in lists a label is its index or its name."""
        if self._numbers is None:
            self._numbers = {label: number for number, label in enumerate(self.labels) if isinstance(label, str)}
        sets = label_sets(labels, self.count, self._numbers)
        if len(sets) != points:
            raise BadValue(f"labels must have one label set per point, got {len(sets)} sets for {points} points.")
        return sets.to(self._reference.device)

    def forward(self, outputs: Tensor) -> Tensor:
        """Return the scores of all labels, (n, L); use `top` for the best ones, which needs less memory."""
        cores = self.read(outputs)
        if self._keeps:
            return self.similarity(cores, self._all_codes())
        return torch.cat([self.similarity(cores, self.codes(part)) for part in slices(self.count, CHUNK)], dim=1)

    @property
    def _keeps(self) -> bool:
        return self.cached and not self.trainable and self.count * self.core <= KEPT

    @final
    def _all_codes(self) -> Tensor:
        """The codes of all labels, made once."""
        if self._kept is None:
            with torch.inference_mode(False):  # or nothing could be trained with them later
                self._kept = self.codes()
        return self._kept

    @final
    def top(self, outputs: Tensor, k: int = 5, bias: Tensor | None = None) -> Best:
        """Return the k labels with the highest scores for each point.

        Args:
            outputs: Outputs of the network, (n, width).
            k: Number of labels.
            bias: Added to the scores, (L,).

        Returns:
            Scores and label indices, (n, k) each, best first; ties are ordered by index.
        """

        if bias is not None:
            check_tensor("bias", bias, (self.count,), "Pass one number per label.")
        # In the head's own numbers, whatever trains: halves would rank near ones by chance.
        with torch.no_grad(), torch.autocast(self._reference.device.type, enabled=False):
            return self._ranked(self.read(outputs), k, bias)

    def _ranked(self, cores: Tensor, k: int, bias: Tensor | None) -> Best:
        def scores(cores: Tensor, part: slice) -> Tensor:
            scored = self.similarity(cores, self._all_codes()[part] if self._keeps else self.codes(part))
            return scored if bias is None else scored + bias[part]

        return scoring.top(cores, scores, self.count, k, self.core)

    @final
    def _checked(self, outputs: Tensor) -> Tensor:
        """The outputs in the head's own kind of numbers: a network may give halves, as it does under autocast."""
        shape = (len(outputs) if isinstance(outputs, Tensor) else -1, self.width)
        check_tensor("outputs", outputs, shape, f"The network's last layer must have {self.width} outputs.")
        return outputs.to(self._reference.dtype)

    @final
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Head:
        # What was made once must follow the head to another device or dtype.
        self._sums, self._kept = {}, None
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    @final
    def _role_index(self, role: str) -> int:
        if role not in self.roles:
            raise BadValue(
                f"role must be {' or '.join(map(repr, self.roles))}, got {role!r}. A head made with missing=True has "
                "both roles."
            )
        return self.roles.index(role)

    @final
    def _labels_at(self, indices: Indices) -> list[Value]:
        if isinstance(indices, slice):
            return list(self.labels[indices])
        return [self.labels[i] for i in indices.tolist()]

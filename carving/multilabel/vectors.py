"""VectorHead: label heads of vector symbolic architectures, the baselines of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from carving import hashing
from carving.errors import BadValue
from carving.hashing import Bits
from carving.multilabel import losses
from carving.multilabel.heads import ALL, MISSING, PRESENT, Head, Indices
from carving.multilabel.options import Common
from carving.multilabel.osc import OSCHead, osc_width
from carving.multilabel.rows import LabelSets, Rows
from carving.schemes import algebra
from carving.schemes.algebra import Space
from carving.symbols import codec
from carving.symbols.codec import Value
from carving.tiling import slices
from carving.validate import check_integer, nearest


@dataclass(frozen=True)
class Vectors:
    """One row of the table: how labels and roles are drawn, and how a role is undone."""

    words: Callable[[int], int]
    atoms: Callable[[Space, Bits], Tensor]
    unbind: Callable[[Space, Tensor, Tensor], Tensor]


def _signs_and_normals(d: int) -> int:
    return hashing.words_for_signs(d) + hashing.words_for_normals(d)


def _word_each(d: int) -> int:
    return d


def vtb_transposed(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """VTB's transpose for any length: both are padded with zeros to the next square, and the result is cut."""
    side = math.isqrt(space.d - 1) + 1
    square = Space(d=side * side, shape=(side * side,), dtype=space.dtype, seed=space.seed)
    x, role = (pad(vector, (0, square.d - space.d)) for vector in (x, role))
    return algebra.vtb_transposed(square, x, role)[..., : space.d]


# fmt: off
#                     bits of an atom          atom              unbind
VECTORS = {
    "HLB": Vectors(_signs_and_normals,      algebra.mixture,  algebra.divide),
    "MAP": Vectors(_word_each,              algebra.uniform,  algebra.multiply),
    "VTB": Vectors(hashing.words_for_normals, algebra.gaussian, vtb_transposed),
    "HRR": Vectors(hashing.words_for_normals, algebra.gaussian, algebra.correlate),
}
# fmt: on


class VectorHead(Head):
    """Label head of a vector symbolic architecture: outputs, unbound from a role, are compared with labels.

    Args:
        name: "HLB", "MAP", "VTB" or "HRR".
        labels: The number of labels, or their names.
        width: Number of outputs of the network, and length of the vectors.
        scale: Magnitude of the entries of HLB's vectors.
        each: Whether to use the loss of Ganesan et al., label by label.
        **common: Options of all heads, see `Head`. As published, `missing` and `absolute` are True by default.

    >>> head = VectorHead("HLB", labels=1000, width=64)
    >>> outputs = torch.ones(2, head.width)
    >>> head(outputs).shape, head.top(outputs, 5).indices.shape
    (torch.Size([2, 1000]), torch.Size([2, 5]))
    """

    def __init__(
        self,
        name: str,
        labels: int | Sequence[Value],
        width: int = 400,
        *,
        scale: float = 1.0,
        each: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(labels, **(Common(missing=True, absolute=True) | common))
        if name not in VECTORS:
            raise BadValue(f"Unknown vector head {name!r}. {nearest(name, VECTORS)}")
        if not 0 < scale < math.inf:
            raise BadValue(f"scale must be a positive number, got {scale}. Usual for HLB: 0.25 to 1.")
        self.name, self.scale, self.each = name, float(scale), each
        self.width = self.core = check_integer("width", width, 2, way_out="400 is usual.")
        self.squashed = True
        self.options |= dict(width=self.width, scale=self.scale, each=each)
        option = (self.scale, 1 / width)
        self.row, self.space = (
            VECTORS[name],
            Space(d=width, shape=(width,), dtype=self.dtype, seed=self.seed, option=option),
        )
        roles = self._atoms([codec.canonical_path((role,)) for role in self.roles], "role")
        self.role_vectors: Tensor  # (roles, width)
        self.vectors: Tensor | None  # (L, width)
        if self.trainable:
            self.role_vectors = nn.Parameter(roles)
            self.vectors = nn.Parameter(self._draw(ALL))
            return
        self.register_buffer("role_vectors", roles, persistent=False)
        self.register_buffer("vectors", self._draw(ALL) if self.cached else None, persistent=False)

    def extra_repr(self) -> str:
        """Return what the representation of a network shows of the head."""
        return f"{self.name}, labels={self.count}, width={self.width}"

    @property
    def _reference(self) -> Tensor:
        return self.role_vectors

    def _atoms(self, names: list[bytes], purpose: str) -> Tensor:
        words = self.row.words(self.width)
        atoms = torch.empty(len(names), self.width, dtype=self.space.dtype)
        for part in slices(len(names), hashing.rows_in_cache(words)):
            atoms[part] = self.row.atoms(self.space, hashing.bits(names[part], words, seed=self.seed, purpose=purpose))
        return atoms

    def _draw(self, indices: Indices) -> Tensor:
        return self._atoms([codec.canonical(label) for label in self._labels_at(indices)], "filler")

    def codes(self, indices: Indices = ALL, role: str = PRESENT) -> Tensor:
        """Return the vectors of labels, (m, width), equal in every role."""
        if self.vectors is not None:
            return self.vectors[indices]
        return self._draw(indices).to(self.role_vectors)

    def read(self, outputs: Tensor, role: str = PRESENT) -> Tensor:
        """Return the outputs with the role unbound, (n, width)."""
        outputs = self._checked(outputs)
        return self.row.unbind(self.space, outputs, self.role_vectors[self._role_index(role)])

    def sum_codes(self, sets: Rows, role: str = PRESENT) -> Tensor:
        """Return the sum of the vectors of each point's labels, (n, width)."""
        labels, inverse = sets.columns.unique(return_inverse=True)
        total = self.role_vectors.new_zeros(len(sets), self.core)
        return total.index_add(0, sets.owners, self.codes(labels, role)[inverse]) if len(labels) else total

    def _sum(self, indices: slice, role: str) -> Tensor:
        return self.codes(indices, role).sum(0)

    def similarity(self, cores: Tensor, codes: Tensor) -> Tensor:
        """Return cosines (n, m), absolute with `absolute`."""
        cosines = normalize(cores, dim=-1) @ normalize(codes, dim=-1).mT
        return cosines.abs() if self.absolute else cosines

    def loss(self, outputs: Tensor, labels: LabelSets) -> Tensor:
        """Return the published loss of this head, a scalar; see `losses`."""
        sets = self.label_sets(labels, len(outputs))
        u, w = self.read(outputs), self.read(outputs, MISSING) if self.missing else None
        if self.each:
            return losses.each(u, w, self.codes(sets.columns), sets)
        wanted, others = self.sum_codes(sets), self.sum_other_codes(sets) if self.missing else None
        if self.name == "HLB":
            return losses.corrected(u, wanted, w, others, outputs, self.scale)
        return losses.absolute(u, wanted, w, others)


def make_head(name: str, labels: int | Sequence[Value], **options: Any) -> Head:
    """Return a new head by name: "OSC", "HLB", "MAP", "VTB" or "HRR".

    Raises:
        BadValue: If there is no head of this name.

    >>> make_head("OSC", 1000, d=48).width, make_head("HLB", 1000, width=64).width
    (256, 64)
    """
    known = ("OSC", *VECTORS)
    if name not in known:
        raise BadValue(f"Unknown head {name!r}. {nearest(name, known)}")
    return OSCHead(labels, **options) if name == "OSC" else VectorHead(name, labels, **options)


@dataclass(frozen=True)
class Claim:
    """How large a head will be, before it is made."""

    width: int  # outputs of the network in front
    squashed: bool  # whether that ends with tanh
    kept: int  # numbers that are kept of roles and labels
    trained: tuple[int, ...]  # the shape of codes that are trained


def claimed(name: str, labels: int, options: dict[str, Any]) -> Claim:
    """What a head's `options`, which name them all, say of its size."""
    cached = bool(options["cached"])
    if name != "OSC":
        width = check_integer("width", options["width"], 2)
        return Claim(width, True, width * (2 + labels * cached), (labels, width))
    d, p, k1, rank = (check_integer(name, options[name], 1) for name in ("d", "p", "k1", "rank"))
    check_integer("p", p, 1, 4)
    roles = 2 if options["missing"] else 1
    width = osc_width(options["form"], roles, d, p, k1, rank)
    kept = labels * (cached and not options.get("levels", False))
    if "dictionary" in options:
        kept = check_integer("dictionary", options["dictionary"], 1)
    return Claim(width, bool(options["tanh"]), roles * k1 * (d + p * kept), (labels, p, d))

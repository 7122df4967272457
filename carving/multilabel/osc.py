"""OSCHead: label head with codes of Orthogonal Subspace Carving."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from carving.errors import BadValue
from carving.inference.top_k import Best
from carving.multilabel import losses, scoring
from carving.multilabel.grid import Grid
from carving.multilabel.heads import ALL, CHUNK, MISSING, PRESENT, Head, Indices
from carving.multilabel.levels import Levels
from carving.multilabel.options import OSCOptions
from carving.multilabel.rows import LabelSets, Rows
from carving.schemes.osc import OSC
from carving.symbols.codec import Value
from carving.tensors import outer
from carving.tiling import slices
from carving.validate import check_choice, check_integer

DRAWN = 2**25  # numbers of fillers at most that are drawn at a time, where each has very many
PADDED = 2**24  # numbers of components that are summed at a time

PRESETS: dict[str, Callable[[int], tuple[int, int]]] = {
    "third": lambda d: (2, math.ceil(d / 3)),  # order, kept dimensions
    "root": lambda d: (3, math.isqrt(d)),
}


def osc_width(form: str, roles: int, d: int, p: int, k1: int, rank: int) -> int:
    """Return the number of outputs that a network needs for an OSC head of this form."""
    return dict(carved=roles * k1**p, full=d**p, components=roles * rank * p * k1)[form]


class OSCHead(Head):
    """Label head whose codes are bound by Orthogonal Subspace Carving.

    The code of a label is the outer product of its p components, projected onto the subspace of the role.

    Args:
        labels: The number of labels, or their names.
        d: Side length of the memory tensor.
        p: Order of the memory, 1 to 4; None: by `preset`.
        k1: Dimensions of the subspace of a role, at most d / 2; None: by `preset`.
        preset: "third" (p = 2, k1 = d / 3, rounded up) or "root" (p = 3, k1 = sqrt(d), rounded down).
        form: What the network outputs: "carved", the k1^p coordinates of each role; "full", the memory of d^p numbers;
            "components", `rank` tuples of components.
        rank: Number of tuples for `form="components"`.
        **others: Options of all heads (see `Head`), and `dictionary`: labels share this many components of each mode
            (0: as few as possible, about the p-th root of the number of labels), which ranks fastest; `levels=True`:
            each label has components of its own that are cheap to draw, so that nothing per label is kept; `tanh`:
            whether the network ends with tanh; `basis`: how the subspaces are drawn, "blocks" by default.

    >>> head = OSCHead(["physics", "maths", "music"], d=48)
    >>> head.width  # what the network's last layer must have, however many labels there are
    256
    >>> outputs = head.sum_codes(head.label_sets([["music", "maths"], ["physics"]], 2))  # of a perfect network
    >>> head.top(outputs, 2).indices.sort().values[0]
    tensor([1, 2])
    >>> abs(float(head.loss(outputs, [[1, 2], [0]]))) < 1e-6
    True
    """

    def __init__(
        self,
        labels: int | Sequence[Value],
        d: int = 125,
        p: int | None = None,
        k1: int | None = None,
        *,
        preset: str = "third",
        form: str = "carved",
        rank: int = 1,
        **others: Unpack[OSCOptions],
    ) -> None:
        tanh, basis = others.pop("tanh", False), others.pop("basis", "blocks")
        dictionary, levels = others.pop("dictionary", None), others.pop("levels", False)
        super().__init__(labels, **others)  # type: ignore[misc]  # the four are out
        d = check_integer("d", d, 2, way_out="It is the side length of the memory tensor; 125 is usual.")
        order, kept = PRESETS[check_choice("preset", preset, tuple(PRESETS))](d)
        p = check_integer("p", order if p is None else p, 1, 4)
        k1 = check_integer(
            "k1", kept if k1 is None else k1, 1, d // 2, "The two roles need disjoint subspaces of k1 dimensions each."
        )
        self.scheme = OSC(d, p, k1, signed=False, basis=basis, seed=self.seed, dtype=self.dtype)
        self.form = check_choice("form", form, ("carved", "full", "components"))
        self.rank = check_integer("rank", rank, 1)
        self.core, self.squashed = k1**p, tanh
        self.options |= dict(d=d, p=p, k1=k1, form=form, rank=self.rank, tanh=tanh, basis=basis)
        self.width = osc_width(form, len(self.roles), d, p, k1, self.rank)
        self.grid: Grid | None = None
        self.levels: Levels | None = None
        if dictionary is not None:
            self._check_numbered("dictionary")
            self.grid = Grid.of(self.count, dictionary, p, self.seed)
            self.options |= dict(dictionary=self.grid.q)
        if levels:
            self._check_numbered("levels=True")
            if dictionary is not None:
                raise BadValue("dictionary and levels=True exclude each other. Pass only one.")
            self.levels = Levels.of(p, k1, self.seed)
            self.options |= dict(levels=True)
        contexts = self.scheme.contexts([(role,) for role in self.roles])
        self.basis: Tensor
        self.register_buffer("basis", contexts.basis, persistent=False)  # (roles, k1, d)
        self.fillers: Tensor | None = None
        self.components: Tensor | None
        if self.trainable:
            self.fillers = nn.Parameter(self.scheme.fillers(self.labels).contiguous())  # (L, p, d)
        self.register_buffer("components", self._kept_components(), persistent=False)

    def _check_numbered(self, option: str) -> None:
        if self.trainable or not isinstance(self.labels, range):
            raise BadValue(f"{option} needs labels given as their number, and trainable=False.")

    def extra_repr(self) -> str:
        """Return what the representation of a network shows of the head."""
        s = self.scheme
        return f"labels={self.count}, d={s.d}, p={s.p}, k1={s.k1}, form={self.form}, width={self.width}"

    @property
    def _reference(self) -> Tensor:
        return self.basis

    def _kept_components(self) -> Tensor | None:
        """The components of all labels in all roles, (roles, p, L, k1), where they are kept."""
        if self.grid is not None:
            fillers = self.scheme.fillers([f"component {number}" for number in range(self.grid.q)])
            return torch.stack([self._carve(fillers, role) for role in range(len(self.roles))])
        if self.trainable or self.levels is not None or not self.cached:
            return None
        shape = len(self.roles), self.scheme.p, self.count, self.scheme.k1
        components = torch.empty(shape, dtype=self.dtype)
        for part in slices(self.count, max(1, min(CHUNK, DRAWN // (self.scheme.p * self.scheme.d)))):
            for role in range(len(self.roles)):
                components[role, :, part] = self._draw(part, role)
        return components

    def _draw(self, indices: Indices, role: int) -> Tensor:
        """Components (p, m, k1) from the labels' names; torch.compile cannot look into that, and need not."""
        if torch.compiler.is_compiling():
            return torch.compiler.disable(self._drawn)(indices, role)
        return self._drawn(indices, role)

    def _drawn(self, indices: Indices, role: int) -> Tensor:
        return self._carve(self.scheme.fillers(self._labels_at(indices)).to(self.basis), role)

    def _carve(self, fillers: Tensor, role: int) -> Tensor:
        return normalize(fillers.transpose(0, 1) @ self.basis[role].mT, dim=-1)

    def _components(self, indices: Indices, role: str) -> Tensor:  # (p, m, k1), unit rows
        at = self._role_index(role)
        if self.fillers is not None:
            return self._carve(self.fillers[indices], at)
        if self.components is not None and self.grid is not None:
            modes = torch.arange(self.scheme.p, device=self.basis.device)[:, None]
            return self.components[at][modes, self.grid.numbers(self._numbered(indices))]
        if self.levels is not None:
            return self.levels.components(self._numbered(indices), self.basis)  # the same in every role
        if self.components is not None:
            return self.components[at, :, indices]
        return self._draw(indices, at)

    def _numbered(self, indices: Indices) -> Tensor:
        if isinstance(indices, Tensor):
            return indices
        return torch.arange(*indices.indices(self.count), device=self.basis.device)

    def read(self, outputs: Tensor, role: str = PRESENT) -> Tensor:
        """What a role shows of the network's outputs: (n, width) -> (n, core)."""
        outputs = self._checked(outputs)
        at, k1, p = self._role_index(role), self.scheme.k1, self.scheme.p
        if self.form == "carved":
            return outputs[:, at * self.core : (at + 1) * self.core]
        if self.form == "full":
            inside = outputs.view(-1, *self.scheme.facts.memory_shape)
            for _ in range(p):  # the first mode carved and turned to the end, p times
                inside = torch.tensordot(inside, self.basis[at], dims=([1], [1]))
            return inside.flatten(1)
        tuples = outputs.view(len(outputs), len(self.roles), self.rank, p, k1)[:, at]
        return outer(tuples.unbind(2)).sum(1)

    def codes(self, indices: Indices = ALL, role: str = PRESENT) -> Tensor:
        """The codes of some labels in a role, (m, core), of norm 1."""
        return outer(self._components(indices, role).unbind(0))

    @property
    def _keeps(self) -> bool:
        few = self.levels is not None and self.count * self.core <= scoring.DRAWN  # which fit into the room for drawing
        return few or super()._keeps

    def _ranked(self, cores: Tensor, k: int, bias: Tensor | None) -> Best:
        if self.grid is not None and self.components is not None:
            return self.grid.top(cores, self.components[self._role_index(PRESENT)], k, bias, self.absolute)
        if self.levels is None or self._keeps:
            return super()._ranked(cores, k, bias)
        fill = scoring.filling(self._fill, bias, self.absolute)
        return scoring.top(cores, fill, self.count, k, self.core)

    def _fill(self, labels: slice, room: Tensor) -> None:
        """The codes of labels, put into a tensor (m, core)."""
        left, right = _halves(self._components(labels, PRESENT))
        into = room.view(len(room), left.shape[-1], right.shape[-1])
        torch.mul(left.unsqueeze(-1), right.unsqueeze(-2), out=into)

    def _sum_of_products(self, components: Tensor) -> Tensor:
        """Outer products summed over dimension -2, not formed one by one: (p, ..., m, k1) -> (..., core)."""
        left, right = _halves(components)
        return (left.mT @ right).flatten(-2)

    def sum_codes(self, sets: Rows, role: str = PRESENT) -> Tensor:
        """Return the sum of the codes of each point's labels, (n, core)."""
        p, k1 = self.scheme.p, self.scheme.k1
        labels, inverse = sets.columns.unique(return_inverse=True)  # drawn once each, where they are drawn
        components = self._components(labels, role) if len(labels) else self.basis.new_zeros(p, 1, k1)
        owners, counts = sets.owners, sets.counts
        within = torch.arange(len(inverse), device=inverse.device) - sets.starts[owners]  # the point's own set
        # Sets are padded to the longest; many points together only where that is short.
        longest = max(1, int(counts.max()) if len(counts) else 1)
        sums = [components.new_zeros(0, self.core)]
        for points in slices(len(sets), max(1, PADDED // (p * longest * k1))):
            stored = slice(int(sets.starts[points.start]), int(sets.starts[points.stop]))
            padded = components.new_zeros(p, points.stop - points.start, longest, k1)
            padded[:, owners[stored] - points.start, within[stored]] = components[:, inverse[stored]]
            sums.append(self._sum_of_products(padded))
        return torch.cat(sums)

    def _sum(self, indices: slice, role: str) -> Tensor:
        return self._sum_of_products(self._components(indices, role))

    def similarity(self, cores: Tensor, codes: Tensor) -> Tensor:
        """Return inner products (n, m), absolute with `absolute`; a negative one means that the label is absent."""
        scores = cores @ codes.mT
        return scores.abs() if self.absolute else scores

    def loss(self, outputs: Tensor, labels: LabelSets) -> Tensor:
        """Return 1 - cosine to the sum of the labels' codes; with `missing`, plus a term for all other labels."""
        sets = self.label_sets(labels, len(outputs))
        u, wanted = self.read(outputs), self.sum_codes(sets)
        if not self.missing:
            return losses.carved(u, wanted)
        return losses.carved(u, wanted, self.read(outputs, MISSING), self.sum_other_codes(sets))


def _halves(components: Tensor) -> tuple[Tensor, Tensor]:
    """The products of the first modes and of the others, whose products are codes: (p, ..., k1) -> two (..., s)."""
    half = len(components) // 2
    parts = components.unbind(0)
    right = outer(parts[half:])
    return (outer(parts[:half]) if half else torch.ones_like(right[..., :1])), right

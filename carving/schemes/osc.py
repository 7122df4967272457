"""Orthogonal Subspace Carving: a filler's p components, projected into the context's subspace and normalized.

A context keeps a random subspace of k1 of the d dimensions. Everything happens in the coordinates of that subspace
(`subspaces.py`), where a bound filler is the outer product of p unit vectors of length k1 (`fillers.py`): the scores
equal the paper's formulas, without a d x d projector or a d^p tensor for each candidate.
"""

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Self, get_args

import torch
from torch import Tensor

from carving import hashing
from carving.caching import cached_property
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes.base import Candidates, Facts, check_batched, match_in_tiles
from carving.schemes.fillers import (
    CompactFillers,
    OrdinaryFillers,
    check_dictionary,
    chosen_vectors,
    dictionary_vectors,
)
from carving.schemes.moments import Basis, bias, unsteady
from carving.schemes.subspaces import Blocks, Ensemble, PartOf, read_modes, write_modes
from carving.schemes.subspaces import Subspaces as Subspaces
from carving.schemes.verbs import ContextVerbs
from carving.symbols.paths import Paths
from carving.tensors import BLOCK, columns_outer, one, orthonormal, outer
from carving.tiling import Cost, rows_within, slices
from carving.validate import check_choice, check_integer, check_number, check_tensor

CPU = torch.device("cpu")
CACHED_NUMBERS = 2**17  # of a factor that stays in the caches for several passes


@dataclass(frozen=True, repr=False)
class OSC(ContextVerbs[Subspaces | Blocks]):
    """Orthogonal Subspace Carving: a memory tensor of order p and side d.

    A context is a random subspace of k1 of the d dimensions. A filler has p components; binding projects them into the
    subspace, normalizes them and takes their outer product. `OSC.paper(d, p)` is the scheme as published.

    Args:
        d: Side of the memory, which has d^p cells. At least 2; typical values are 64 to 200.
        p: Order of the memory, 1 to 4.
        k1: Dimensions that a context keeps, 1 to d - 1. By default round(sqrt(d)).
        signed: Give every context a random sign, so that a value stored in many contexts does not add up to a bias in
            all others. The paper has no signs.
        carved: Dimensions that a context forbids, instead of k1: k1 = d - carved. The smaller of the two bases is drawn
            and stored; if more than half of the space is kept, cores have d^p numbers instead of k1^p.
        compact: Draw fillers as (p, k1) numbers instead of (p, d): smaller codebooks and faster queries.
        spread: Amplitudes of contexts vary by up to exp(spread) either way, 0 to 4. Joint decoding then finds strong
            contexts first and has a higher capacity; single queries find weak contexts less well.
        basis: "blocks" draws subspaces as blocks of coordinates, many times faster and as accurate; "gaussian" as the
            span of normal vectors, as in the paper.
        dictionary: Take every component of a compact filler from this many fixed vectors, so that a filler is p small
            integers. Labels with equal integers cannot be distinguished. 0: no dictionary.
        seed, dtype, device, workspace: As in `Scheme`.

    >>> OSC(d=200)
    OSC(d=200, p=2, k1=14, signed=True, basis='blocks', seed=0)
    >>> OSC(d=80, p=3, compact=True).facts.filler_shape
    (3, 9)
    """

    name = "OSC"
    derived = ("k1",)
    d: int
    p: int = 2
    k1: int = None  # type: ignore[assignment]  # round(sqrt(d)), once it is made
    signed: bool = True
    _: KW_ONLY
    carved: InitVar[int | None] = None
    compact: bool = False
    spread: float = 0.0
    basis: Basis = "blocks"
    dictionary: int = 0
    workspace: int = field(default=32 * 2**20, compare=False)

    def __post_init__(self, carved: int | None) -> None:
        d = check_integer("d", self.d, 2, way_out="It is the side of the memory; typical values are 64 to 200.")
        p = check_integer("p", self.p, 1, 4, "A memory has d^p cells.")
        k1, usual = self.k1, round(math.sqrt(d))
        if carved is not None:
            if k1 is not None:
                raise BadValue(f"k1={k1} conflicts with carved={carved}, which sets k1 = d - carved. Pass only one.")
            k1 = d - check_integer("carved", carved, 1, d - 1, "It is the number of dimensions that a context forbids.")
        k1 = check_integer("k1", usual if k1 is None else k1, 1, d - 1, f"The default is round(sqrt(d)) = {usual}.")
        check_choice("basis", self.basis, get_args(Basis))
        check_flags(signed=self.signed, compact=self.compact)
        if self.compact and not self.signed:
            raise BadValue(
                "signed=False conflicts with compact=True: compact fillers need signed contexts. Pass only one."
            )
        spread = check_number("spread", self.spread)
        if not 0 <= spread <= 4:
            raise BadValue(
                f"spread must be a number from 0 to 4, got {spread!r}. With 0 all contexts have the same amplitude."
            )
        dictionary = check_dictionary(self.dictionary, self.compact, p)
        vars(self).update(d=d, p=p, k1=k1, carved=d - k1, spread=spread, dictionary=dictionary)
        super().__post_init__()

    @classmethod
    def paper(cls, d: int, p: int = 2, k1: int | None = None, **options: Any) -> Self:
        """Return the scheme as published: Gaussian subspaces, no signs, fillers of p d numbers.

        By default k1 = round(sqrt(d)), which reproduces most tables of the paper. The code that the paper timed rounds
        down, k1=math.isqrt(d), and one table fits rounding up.

        >>> OSC.paper(d=200)
        OSC(d=200, p=2, k1=14, signed=False, basis='gaussian', seed=0)
        """
        return cls(d, p, k1, **{"signed": False, "basis": "gaussian"} | options)  # type: ignore[arg-type]

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments that define the scheme; `compact`, `spread` and `dictionary` only if set."""
        own = super().parameters
        return {key: value for key, value in own.items() if key not in ("compact", "spread", "dictionary") or value}

    @cached_property
    def filler_kind(self) -> OrdinaryFillers | CompactFillers:
        """The kind of fillers: ordinary (p d numbers) or compact (p k1 numbers)."""
        return (CompactFillers if self.compact else OrdinaryFillers)(self.d, self.p, self.k1)

    @property
    def rank(self) -> int:
        """The number of rows of a basis."""
        return self.filler_kind.basis_shape[-2]

    @property
    def _cost(self) -> Cost:
        kind, d, p, half = self.filler_kind, self.d, self.p, (self.p + 1) // 2
        side, basis, blocks = kind.side, math.prod(kind.basis_shape), self.basis == "blocks"
        first = side * d ** (min(p, 3) - 1)  # what the first product of a reading gives
        return Cost(
            pair=(8 * p * d if blocks else basis + 2 * p * d) + p * side + d ** (half - 1) + d ** (p - half),
            core=2 * basis + (d * side ** (p - 1) if p > 3 else 0) + 2 * first + 2 * side**p,
            context=4 * p * d if blocks else 4 * basis,  # a path is hashed, however deep it is
            max_pairs=1024 if blocks or p > 2 else 2**40,
            max_reads=max(16, 2**20 // first),
            cell=kind.cell,
            candidate=2 * kind.code_size,
            max_contexts=4096 if self.compact else 32 if blocks and p < 3 else 16,
            max_candidates=2**40 if self.compact else BLOCK,
        )

    @cached_property
    def facts(self) -> Facts:
        """Shapes, costs and laws of the scheme."""
        kind, d, p, side = self.filler_kind, self.d, self.p, self.filler_kind.side
        interference, echo = kind.interference(self.basis)
        return Facts(
            filler_shape=kind.filler_shape,
            core_shape=(side,) * p,
            memory_shape=(d,) * p,
            memory_dtype=self.dtype,
            filler_dtype=self.dtype,
            filler_words=p if self.dictionary else hashing.words_for_normals(math.prod(kind.filler_shape)),
            cost=self._cost,
            filler_scalars=p if self.dictionary else math.prod(kind.filler_shape),
            memory_scalars=d**p,
            code_size=kind.code_size,
            part_size=kind.part_size,
            filler_layout=(1, 2, 0) if self.compact or self.basis == "blocks" else (1, 0, 2),
            adjoint=not self.spread,
            contextual=kind.contextual,
            interference=interference,
            echo=echo,
            uneven=kind.uneven(self.basis),
            bias=0.0 if self.signed else bias(d, p, self.k1),
            unsteady=0.0 if self.signed else unsteady(d, p, self.k1),
            order=p,
        )

    # Labels -> fillers and contexts

    def _fillers(self, words: Bits) -> Tensor:
        shape = self.filler_kind.filler_shape
        if self.dictionary:
            return chosen_vectors(words, dictionary_vectors(self.p, self.k1, self.dictionary, self.seed))
        return hashing.normals(words)[:, : math.prod(shape)].reshape(-1, *shape)

    def _contexts(self, paths: Paths) -> Subspaces | Blocks:
        ensemble = Ensemble(self.filler_kind.basis_shape, self.basis, self.signed, self.spread)
        contexts = ensemble.draw(paths.names, seed=self.seed, dtype=self.dtype)
        return contexts if self.device == CPU else contexts.to(self.device)

    def contexts_from(self, basis: Tensor, signs: Tensor | None = None) -> Subspaces:
        """Return contexts of given subspaces, such as a layer's outputs, instead of paths; differentiable.

        Args:
            basis: Rows that span what each of n contexts keeps, (*, n, k1, d), or of compact fillers for each component
                (*, n, p, k1, d). They are orthonormalized in order. Where contexts keep more than half of the space
                (2 k1 > d) and fillers are not compact, the d - k1 rows of what they forbid.
            signs: The sign (or amplitude) of each context, (*, n); 1 if None.

        >>> osc = OSC(d=20, k1=4)
        >>> osc.contexts_from(torch.randn(3, 4, 20)).basis.shape
        torch.Size([3, 4, 20])
        """
        shape = self.filler_kind.basis_shape
        lead = check_batched("basis", basis, (-1, *shape), "Pass k1 rows of d numbers for each context.", self.dtype)
        lead = *lead, basis.shape[len(lead)]
        if signs is not None:
            check_tensor("signs", signs, lead, "Pass one sign for each context.", self.dtype)
        return Subspaces(orthonormal(basis), basis.new_ones(lead) if signs is None else signs, scheme=self.fingerprint)

    # The verbs

    def _encode(self, fillers: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        return outer(self.filler_kind.components(fillers, contexts).unbind(1)).view(-1, *self.facts.core_shape)

    def _vectors(self, fillers: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        """The p vectors (n, p, d) of the whole space whose outer products are the bound fillers, without amplitudes."""
        return self.filler_kind.bound(self.filler_kind.components(fillers, contexts), contexts)

    def _bind(self, fillers: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        first, *others = self._vectors(fillers, contexts).unbind(1)
        return outer([first * contexts.amplitudes.unsqueeze(1), *others]).view(-1, *self.facts.memory_shape)

    def _trace(self, contexts: Subspaces | Blocks, fillers: Tensor, weights: Tensor | None) -> Tensor:
        first, *others = self._vectors(fillers, contexts).unbind(1)
        scale, half = contexts.amplitudes if weights is None else contexts.amplitudes * weights, (self.p + 1) // 2
        left = outer([first * scale.unsqueeze(1), *others[: half - 1]])
        if self.p == 1:
            return left.sum(0)
        return (left.mT @ outer(others[half - 1 :])).view(self.facts.memory_shape)

    def _add(
        self,
        memory: Tensor,
        contexts: Subspaces | Blocks,
        fillers: Tensor,
        weights: Tensor | None,
        own: slice = slice(None),  # the rows of the first mode that the memory has
    ) -> None:
        vectors = self._vectors(fillers, contexts)
        scale = contexts.amplitudes if weights is None else contexts.amplitudes * weights
        half = (self.p + 1) // 2
        right = outer(vectors[:, half:].unbind(1) or [torch.ones_like(scale).unsqueeze(1)])
        # The left factor has a pair a column, since products of long rows are made in half of the time. It is made in
        # parts that stay in the caches, each for some slabs of the memory.
        first, *rest = (vectors[:, place].mT.contiguous() for place in range(half)) if half > 1 else [vectors[:, 0].mT]
        first = first[own] * scale
        # A wide right factor is packed by BLAS for every part: parts of half its size keep that small.
        numbers = max(CACHED_NUMBERS, right.numel() // 2)
        many = len(memory)
        for rows in slices(many, many if half == 1 else rows_within(numbers, len(scale) * self.d ** (half - 1))):
            left = columns_outer([first[rows], *rest])
            memory[rows].view(left.shape[0], -1).addmm_(left, right)

    def _write(self, cores: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        return write_modes(self._scaled(cores, contexts.amplitudes), self.filler_kind.maps(contexts)).view(
            self.facts.memory_shape
        )

    def _read(self, memory: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        amplitudes = contexts.amplitudes
        return self._scaled(self._inside(memory, contexts), 1 / amplitudes if self.spread else amplitudes)

    def _match(self, cores: Tensor, contexts: Subspaces | Blocks, candidates: Candidates) -> Tensor:
        return self.filler_kind.match(cores, contexts, candidates, self.room)

    def _inside(self, memory: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        return read_modes(memory.reshape(self.d, -1), self.filler_kind.maps(contexts), self.filler_kind.side)

    # Of a memory of which only some rows of the first mode are there: that mode is made the last one, whose products
    # are small, so that nothing is ever as large as the whole memory.

    def write_rows(self, cores: Tensor, contexts: Subspaces | Blocks, own: slice) -> Tensor:
        """Return some rows of the memory that cores give."""
        if self.p == 1:
            return self._write(cores, contexts)[own]
        first, *others = self.filler_kind.maps(contexts)
        turned = self._scaled(cores, contexts.amplitudes).movedim(1, -1)
        written = write_modes(turned, [*others, PartOf.last(first, own, self.d)])
        return written.view(*self.facts.memory_shape[1:], -1).movedim(-1, 0)

    def inside_rows(self, memory: Tensor, contexts: Subspaces | Blocks, own: slice) -> Tensor:
        """Return what some rows of the memory contribute to the unscaled cores."""
        first, *others = self.filler_kind.maps(contexts)
        part = PartOf.last(first, own, self.d)
        if self.p == 1:
            return part.project(memory.expand(len(contexts), 1, -1))
        turned = memory.movedim(0, -1).reshape(self.d, -1)
        cores = read_modes(turned, [*others, part], self.filler_kind.side)
        return cores.view(-1, *self.facts.core_shape).movedim(-1, 1)

    def adjoint_rows(self, memory: Tensor, contexts: Subspaces | Blocks, own: slice) -> Tensor:
        """Return what some rows of the memory contribute to the transpose of writing."""
        return self._scaled(self.inside_rows(memory, contexts, own).contiguous(), contexts.amplitudes)

    def read_rows(self, memory: Tensor, contexts: Subspaces | Blocks, own: slice) -> Tensor:
        """Return what some rows of the memory contribute to reading."""
        cores, amplitudes = self.inside_rows(memory, contexts, own).contiguous(), contexts.amplitudes
        return self._scaled(cores, 1 / amplitudes if self.spread else amplitudes)

    def _scaled(self, cores: Tensor, factors: Tensor) -> Tensor:
        return cores.view(-1, *self.facts.core_shape) * factors.view(-1, *(1,) * self.p)

    # As a sum

    def _adjoint(self, memory: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        return self._scaled(self._inside(memory, contexts), contexts.amplitudes)

    def _expected(self, weights: Tensor, contexts: Subspaces | Blocks, candidates: Candidates) -> Tensor:
        return self.filler_kind.expected(weights, contexts, candidates).view(-1, *self.facts.core_shape)

    def _energy(self, contexts: Subspaces | Blocks, candidates: Candidates) -> Tensor:
        amplitudes = contexts.amplitudes
        return amplitudes.square().unsqueeze(1) if self.spread else one(amplitudes.dtype, amplitudes.device)

    def _directional_noise(
        self, cores: Tensor, contexts: Subspaces | Blocks, candidates: Candidates, energy: Tensor
    ) -> Tensor | None:
        kind, uneven = self.filler_kind, self.facts.uneven
        if not uneven or not isinstance(kind, OrdinaryFillers):
            return None
        return match_in_tiles(self, lambda _, part, some: kind.noise(part, some, uneven), cores, contexts, candidates)

    def adjoint_write(self, cores: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        """Return cores written and read by the transpose: cores times the squared amplitudes."""
        return self._scaled(cores, contexts.amplitudes.square()) if self.spread else cores

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory without the traces over pairs of modes, for components that share a basis."""
        return self.filler_kind.remove_partial_traces(memory)


def check_flags(**flags: bool) -> None:
    """Refuse flags that are neither True nor False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise BadType(f"{name} must be True or False, got {flag!r}. The paper has signed=False, compact=False.")

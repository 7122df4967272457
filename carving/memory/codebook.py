"""Codebooks: the fillers of a vocabulary, created from values on demand and kept, or trained."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadValue
from carving.index import BucketIndex, CandidateIndex, supports
from carving.schemes.base import Candidates, Scheme, draw_candidates, draw_fillers, empty_fillers
from carving.symbols.codec import Value, canonical_values
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import inverse_norm
from carving.tiling import rows_within, slices
from carving.validate import check_tensor, show_bytes

MAX_FILLER_BYTES = 2**31  # fillers that take more are created from their values, chunk by chunk
MAX_UNCODED_QUERIES = 4  # for up to this number, codes of all fillers do not pay


class Codebook:
    """The fillers of a vocabulary; those of the first values may have been trained."""

    def __init__(self, scheme: Scheme, vocabulary: Vocabulary, trained: Tensor | None = None) -> None:
        self.scheme, self.vocabulary = scheme, vocabulary
        self.trained = None if trained is None else trained.detach()
        self._fillers = empty_fillers(scheme, 0, scheme.device)
        self._codes = self._parts = self._fillers  # what is made of them for many questions, and for few
        self._index: CandidateIndex | None = None  # and for many fillers
        if self.trained is not None:
            self._fillers = self._extended(self._fillers, self.trained)

    @property
    def holdable(self) -> bool:
        """Whether the fillers of the whole vocabulary may be held."""
        size = math.prod(self.scheme.facts.filler_shape) * self.scheme.dtype.itemsize
        return self.trained is not None or len(self.vocabulary) * size <= MAX_FILLER_BYTES

    def all(self) -> Tensor:
        """Return the fillers of the whole vocabulary, kept from query to query; refuse those that take too much memory.

        Raises:
            BadValue: If the fillers are not `holdable`.
        """
        fillers = self._fillers  # read once: other threads may replace it
        if len(fillers) < len(self.vocabulary):
            if not self.holdable:
                raise BadValue(
                    f"The fillers of all {len(self.vocabulary):,} values take more than {show_bytes(MAX_FILLER_BYTES)}."
                    " Use recall() or recall_set(), which create fillers chunk by chunk, or pass candidates=."
                )
            missing = self.vocabulary.names(len(fillers))
            fillers = self._fillers = self._extended(fillers, draw_candidates(self.scheme, missing))
        return fillers

    @property
    def indexable(self) -> bool:
        """Whether an index can be made of the fillers: compact ones, none of them trained."""
        return self.trained is None and supports(self.scheme)

    def index(self) -> CandidateIndex:
        """Return the index of the whole vocabulary, kept from query to query."""
        index = self._index
        if index is None or len(index) < len(self.vocabulary):
            made = BucketIndex.of(self.scheme, self.vocabulary) if index is None else index.extended(self.vocabulary)
            index = self._index = made
        return index

    @property
    def indexed(self) -> int:
        """The number of first values that an existing index contains."""
        return 0 if self._index is None else len(self._index)

    def keep_index(self, index: CandidateIndex | None) -> None:
        """Use an existing index of the first values."""
        self._index = index

    def ready(self, queries: int) -> Candidates:
        """Return all fillers in the form that is fastest for a number of queries, if it fits into a workspace."""
        fillers, scheme = self.all(), self.scheme
        count, size = fillers.shape[0], scheme.facts.code_size
        if scheme.facts.part_size and queries <= MAX_UNCODED_QUERIES:
            return self._ready_parts(fillers)
        # Few queries read the fillers faster than their codes, which are many times as large.
        if not size or queries <= MAX_UNCODED_QUERIES or count * size * fillers.itemsize > scheme.workspace:
            return Candidates(fillers)
        codes = self._codes
        if codes.shape[0] == count:
            return Candidates(codes, "codes")
        codes = torch.empty(count, size, dtype=fillers.dtype, device=fillers.device)
        for rows in slices(count, rows_within(scheme.room // 4, size)):
            codes[rows] = scheme.precompute(fillers[rows]).tensor
        self._codes = codes
        return Candidates(codes, "codes")

    def _ready_parts(self, fillers: Tensor) -> Candidates:
        """Return the fillers with components of norm 1, laid flat."""
        parts = self._parts
        if parts.shape[0] != fillers.shape[0]:
            if fillers.nbytes > self.scheme.workspace:
                return Candidates(fillers)
            columns = fillers.permute(1, 2, 0).contiguous()
            parts = self._parts = (columns * inverse_norm(columns, dim=1).unsqueeze(1)).flatten(0, 1).mT
        return Candidates(parts, "parts")

    def _extended(self, kept: Tensor, more: Tensor) -> Tensor:
        """Return fillers with some more appended, laid out for matching."""
        self._codes = self._parts = kept[:0]
        held = len(kept)
        fillers = empty_fillers(self.scheme, held + len(more), self.scheme.device)
        fillers[:held], fillers[held:] = kept, more
        return fillers

    def of(self, values: Sequence[Value]) -> Tensor:
        """Return the fillers of values, known or not."""
        return self.named(canonical_values(values))

    def named(self, names: Sequence[bytes]) -> Tensor:
        """Return the fillers of values by their canonical bytes."""
        rows = self.vocabulary.rows_of(names)
        kept = self._fillers  # those that were trained among them
        held = len(kept)
        if min(rows) >= 0 and max(rows) < held:
            return kept[rows]
        if max(rows) < 0 or not held:
            return draw_fillers(self.scheme, names)
        missing = [place for place, row in enumerate(rows) if not 0 <= row < held]
        fillers = kept[[row if 0 <= row < held else 0 for row in rows]]
        fillers[missing] = draw_fillers(self.scheme, [names[place] for place in missing])
        return fillers

    def check_levels(self, values: Sequence[Value], names: Sequence[bytes]) -> None:
        """Refuse numbers without a filler if fillers of numbers were trained: a drawn one is unlike all others."""
        if self.trained is None:
            return
        missing = [place for place, row in enumerate(self.vocabulary.rows_of(names)) if row < 0]
        number = next((values[place] for place in missing if is_number(values[place])), None)
        if number is None:
            return
        levels = [self.vocabulary[row] for row in range(len(self.trained))]
        if all(map(is_number, levels)):
            near = min(levels, key=lambda level: abs(level - number))  # type: ignore[operator]
            raise BadValue(
                f"The memory has fillers for {len(levels):,} numbers, and {number!r} is not one of them; the nearest "
                f"is {near!r}. Round the values, carving.encodings.rounded(values, low, high, count), or use more "
                "levels."
            )


class Drawn:
    """A cache of the fillers of values, which takes at most a workspace."""

    def __init__(self, codebook: Codebook) -> None:
        self.codebook = codebook
        self._rows: dict[bytes, int] = {}
        self._fillers: Tensor | None = None  # with room for more

    def named(self, names: Sequence[bytes], last: bool = False) -> Tensor:
        """Return the fillers of values by their canonical bytes; `last` says that no more will follow."""
        rows = self._rows
        if last and not rows:
            return self.codebook.named(names)
        new = [name for name in dict.fromkeys(names) if name not in rows]
        if len(rows) + len(new) > self._most:
            if len(new) == len(names):  # what does not come again is not worth keeping
                return self.codebook.named(names)
            rows.clear()
            new = list(dict.fromkeys(names))
        return self._with(new)[[rows[name] for name in names]]

    @property
    def _most(self) -> int:
        scheme = self.codebook.scheme
        return rows_within(scheme.room, math.prod(scheme.facts.filler_shape))

    def _with(self, names: list[bytes]) -> Tensor:
        """Return the kept fillers with those of `names` appended."""
        start, end, kept = len(self._rows), len(self._rows) + len(names), self._fillers
        new = self.codebook.named(names) if names else None
        if new is not None and (kept is None or end > len(kept)):
            more = new.new_empty(max(end, min(2 * end, self._most)), *new.shape[1:])
            if kept is not None:
                more[:start] = kept[:start]
            kept = self._fillers = more
        assert kept is not None  # there are names, and each is new or kept
        if new is not None:
            kept[start:end] = new
            self._rows.update(zip(names, range(start, end), strict=True))
        return kept


def check_fillers(scheme: Scheme, values: int, fillers: Tensor) -> None:
    """Refuse trained fillers that are not finite, or not one for each value."""
    shape = (values, *scheme.facts.filler_shape)
    check_tensor("fillers", fillers, shape, "There must be one for each value of the vocabulary.")
    check_finite("fillers", fillers)


def is_number(value: Value) -> bool:
    """Whether a value is a number, and not a bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that is not finite."""
    # One number that is not finite makes the norm so too. A norm may also overflow by itself: then every number counts.
    if not math.isfinite(float(torch.linalg.vector_norm(tensor))) and not bool(torch.isfinite(tensor).all()):
        raise BadValue(f"{name} must be finite, got NaN or infinity.")

"""The fillers of a vocabulary: made from labels when they are first asked for, kept, and trained where they are."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from carving.checks import check_tensor
from carving.chunks import rows_within, slices
from carving.errors import BadValue
from carving.scheme import Scheme, draw_fillers, empty_fillers
from carving.symbols import Leaf, Vocabulary, canonical_all

LARGEST = 2**31  # bytes: the fillers of a larger vocabulary are made from their labels whenever they are asked
FEW = 4  # questions that are answered faster without codes of all fillers


class Codebook:
    """The fillers of a vocabulary's leaves; the first of them may have been trained."""

    def __init__(self, scheme: Scheme, vocabulary: Vocabulary, trained: Tensor | None = None) -> None:
        self.scheme, self.vocabulary = scheme, vocabulary
        self.trained = None if trained is None else trained.detach()
        self._fillers = empty_fillers(scheme, 0, scheme.device)
        self._codes = self._fillers  # what is made of them for many questions
        if self.trained is not None:
            shape = (len(vocabulary), *scheme.facts.filler_shape)
            check_tensor("fillers", self.trained, shape, "give one for each leaf")
            check_finite("fillers", self.trained)
            self._fillers = self._extended(self.trained)

    @property
    def holdable(self) -> bool:
        """Whether the fillers of the whole vocabulary may be held."""
        size = math.prod(self.scheme.facts.filler_shape) * self.scheme.dtype.itemsize
        return self.trained is not None or len(self.vocabulary) * size <= LARGEST

    def all(self) -> Tensor:
        """The fillers of the whole vocabulary, kept from question to question."""
        missing = self.vocabulary.labels[len(self._fillers) :]
        if missing:
            self._fillers = self._extended(self.scheme.fillers(missing))
        return self._fillers

    def ready(self, questions: int) -> Tensor:
        """The same for so many questions at once: precomputed, if they are several and a workspace holds that."""
        fillers, scheme = self.all(), self.scheme
        count, size = fillers.shape[0], scheme.facts.code_size
        # So few read the fillers faster than their codes, which are many times as large.
        if not size or questions <= FEW or count * size * fillers.itemsize > scheme.workspace:
            return fillers
        if self._codes.shape[0] == count:
            return self._codes
        codes = torch.empty(count, size, dtype=fillers.dtype, device=fillers.device)
        for rows in slices(count, rows_within(scheme.room // 4, size)):
            codes[rows] = scheme.precompute(fillers[rows])
        self._codes = codes
        return codes

    def _extended(self, more: Tensor) -> Tensor:
        """The kept fillers and some more, laid out as matching reads them."""
        self._codes = self._fillers[:0]
        held = len(self._fillers)
        fillers = empty_fillers(self.scheme, held + len(more), self.scheme.device)
        fillers[:held], fillers[held:] = self._fillers, more
        return fillers

    def of(self, leaves: Sequence[Leaf]) -> Tensor:
        """The fillers of these leaves, known or not."""
        return self.named(canonical_all(leaves))

    def named(self, names: Sequence[bytes]) -> Tensor:
        """The fillers of leaves by their canonical bytes."""
        rows = [self.vocabulary.rows.get(name, -1) for name in names]
        held = len(self._fillers)  # those that were trained among them
        if min(rows) >= 0 and max(rows) < held:
            return self._fillers[rows]
        if max(rows) < 0 or not held:
            return draw_fillers(self.scheme, names)
        missing = [place for place, row in enumerate(rows) if not 0 <= row < held]
        fillers = self._fillers[[row if 0 <= row < held else 0 for row in rows]]
        fillers[missing] = draw_fillers(self.scheme, [names[place] for place in missing])
        return fillers


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse what is not finite."""
    # One number that is not finite makes the norm so too. A norm may also overflow by itself: then every number counts.
    if not math.isfinite(float(torch.linalg.vector_norm(tensor))) and not bool(torch.isfinite(tensor).all()):
        raise BadValue(f"{name} must be finite numbers, got not-a-number or infinity; look at where they come from")

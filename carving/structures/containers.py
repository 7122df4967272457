"""Mutable multisets, hash tables and sequences: each stores the raw sum of its vectors, so that they can be removed."""

from collections.abc import Sequence as Items
from numbers import Integral

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes.base import Scheme
from carving.structures.vectors import check_vectors, ordered, vector_shape


class VectorSum:
    """A raw sum of vectors, and the number of its terms."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = check_vectors(scheme)
        self.total = self.scheme.empty()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def vector(self) -> Tensor:
        """The structure as one vector: the sum, quantized where the architecture quantizes."""
        return self.scheme.bundle(self.total.unsqueeze(0))

    def clear(self) -> None:
        """Remove all vectors."""
        self.total, self.count = self.scheme.empty(), 0

    def _change(self, vectors: Tensor, weight: int) -> None:
        flat = self._flat(vectors)
        if not len(flat):
            return
        if self.count + weight * len(flat) < 0:
            raise BadValue(f"Cannot remove {len(flat)} vectors: only {self.count} are stored")
        self.total = self.total + weight * self.scheme.total(flat)
        self.count += weight * len(flat)

    def _exchange(self, old: Tensor, new: Tensor) -> None:
        """Replace old vectors by new ones; if one is refused, nothing changes."""
        gone, come = self._flat(old), self._flat(new)
        if len(gone) != len(come):
            raise BadValue(f"old and new must have the same number of vectors, got {len(gone)} and {len(come)}")
        if len(gone) > self.count:
            raise BadValue(f"Cannot replace {len(gone)} vectors: only {self.count} are stored")
        if len(gone):
            self.total = self.total - self.scheme.total(gone) + self.scheme.total(come)

    def _flat(self, vectors: Tensor) -> Tensor:
        """Return vectors (*, *shape) as (n, *shape)."""
        shape = self._shape(vectors)
        return vectors.reshape(-1, *shape)

    def _leading(self, vectors: Tensor) -> tuple[int, ...]:
        """Return the leading dimensions * of vectors (*, *shape)."""
        own = len(self._shape(vectors))
        return tuple(vectors.shape[: vectors.dim() - own])

    def _one(self, *vectors: Tensor) -> None:
        """Refuse tensors that are not single vectors."""
        for x in vectors:
            if self._leading(x):
                raise BadValue(
                    f"Expected a single vector, got a tensor of shape {tuple(x.shape)}. Pass one vector at a time."
                )

    def _paired(self, one: Tensor, other: Tensor, what: str) -> None:
        """Refuse vectors whose leading dimensions cannot be broadcast."""
        leading = self._leading(one), self._leading(other)
        try:
            torch.broadcast_shapes(*leading)
        except RuntimeError:
            raise BadValue(f"{what}, got {leading[0]} and {leading[1]}") from None

    def _shape(self, vectors: Tensor) -> tuple[int, ...]:
        self.scheme._own(vectors)
        return vector_shape(self.scheme, vectors)


class Multiset(VectorSum):
    """A mutable multiset of vectors.

    Args:
        scheme: A VSA.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=4096)
    >>> bag = Multiset(scheme)
    >>> bag.add(scheme.fillers(list("abca")))
    >>> bag.remove(scheme.fillers(list("b")))
    >>> bag.counts(scheme.fillers(list("abc"))).round().int().tolist()
    [2, 0, 1]
    """

    def add(self, vectors: Tensor) -> None:
        """Add vectors (*, *shape)."""
        self._change(vectors, 1)

    def remove(self, vectors: Tensor) -> None:
        """Remove vectors (*, *shape)."""
        self._change(vectors, -1)

    def similarity(self, vectors: Tensor) -> Tensor:
        """Return the similarities (n,) of the multiset and vectors (n, *shape)."""
        return self.scheme.similarity(self.vector, vectors)

    def counts(self, vectors: Tensor) -> Tensor:
        """Return the approximate counts (n,) of vectors (n, *shape), estimated from the raw sum."""
        pictures = self.scheme.picture(vectors)
        energies = pictures.abs().square().flatten(1).sum(1)
        return self.scheme.dot_similarity(self.total, pictures) / energies


class HashTable(VectorSum):
    """A mutable hash table of vectors: values bound with their keys.

    Args:
        scheme: A VSA.

    >>> from carving import make
    >>> scheme = make("FHRR", d=4096)
    >>> keys, values = scheme.fillers(["color", "shape"]), scheme.fillers(["red", "round", "blue"])
    >>> table = HashTable(scheme)
    >>> table.add(keys, values[:2])
    >>> table.replace(keys[0], values[0], values[2])
    >>> scheme.similarity(table.get(keys), values).argmax(-1).tolist()
    [2, 1]
    """

    def add(self, keys: Tensor, values: Tensor) -> None:
        """Add values (*, *shape) under keys (*, *shape)."""
        self._change(self._bound(keys, values), 1)

    def remove(self, keys: Tensor, values: Tensor) -> None:
        """Remove values (*, *shape) from under keys (*, *shape)."""
        self._change(self._bound(keys, values), -1)

    def replace(self, keys: Tensor, old: Tensor, new: Tensor) -> None:
        """Replace old values by new ones under keys (*, *shape)."""
        self._exchange(self._bound(keys, old), self._bound(keys, new))

    def get(self, keys: Tensor) -> Tensor:
        """Return noisy versions (*, *shape) of the values under keys (*, *shape)."""
        return self.scheme.unbind(self.vector, keys)

    def _bound(self, keys: Tensor, values: Tensor) -> Tensor:
        self._paired(keys, values, "keys and values must have matching batch shapes")
        return self.scheme.bind(values, keys)


class Sequence(VectorSum):
    """A mutable sequence of vectors, encoded as by `bundle_sequence`.

    Args:
        scheme: A VSA.
        vectors: The first vectors, (n, *shape) or a list.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=4096)
    >>> letters = scheme.fillers(list("abc"))
    >>> word = Sequence(scheme, letters)
    >>> word.append(letters[0])
    >>> word.popleft(letters[0])
    >>> [scheme.similarity(word[place], letters).argmax().item() for place in range(len(word))]
    [1, 2, 0]
    """

    def __init__(self, scheme: Scheme, vectors: Tensor | Items[Tensor] = ()) -> None:
        super().__init__(scheme)
        for vector in vectors:
            self.append(vector)

    def append(self, vector: Tensor) -> None:
        """Add a vector at the end."""
        self._one(vector)
        self.total = ordered(self.scheme, self.total)
        self._change(vector, 1)

    def appendleft(self, vector: Tensor) -> None:
        """Add a vector at the front."""
        self._one(vector)
        self._change(ordered(self.scheme, vector, self.count), 1)

    def pop(self, vector: Tensor) -> None:
        """Remove the last vector; the caller passes the vector itself."""
        self._some()
        self._one(vector)
        self._change(vector, -1)
        self.total = ordered(self.scheme, self.total, -1)

    def popleft(self, vector: Tensor) -> None:
        """Remove the first vector; the caller passes the vector itself."""
        self._some()
        self._one(vector)
        self._change(ordered(self.scheme, vector, self.count - 1), -1)

    def replace(self, place: int, old: Tensor, new: Tensor) -> None:
        """Replace the old vector at an index by a new one."""
        self._one(old, new)
        after = self.count - 1 - self._place(place)
        self._exchange(ordered(self.scheme, old, after), ordered(self.scheme, new, after))

    def concat(self, other: "Sequence") -> "Sequence":
        """Return a new sequence: the vectors of this one, then the vectors of another."""
        if not isinstance(other, Sequence):
            raise BadType(
                f"other must be a Sequence, got {type(other).__name__}. Create one with Sequence(scheme, vectors)."
            )
        both = Sequence(self.scheme)
        both._shape(other.total)
        both.total = ordered(self.scheme, self.total, len(other)) + other.total
        both.count = self.count + other.count
        return both

    def __getitem__(self, place: int) -> Tensor:
        """Return a noisy version of the vector at an index."""
        return ordered(self.scheme, self.vector, -(self.count - 1 - self._place(place)))

    def _place(self, place: int) -> int:
        if isinstance(place, bool) or not isinstance(place, Integral):
            raise BadType(
                f"index must be an integer, got {place!r}. For several use [sequence[i] for i in range(...)]."
            )
        if not -self.count <= place < self.count:
            # As lists do, so that loops end.
            raise IndexError(f"index {place} is out of range for a sequence of {self.count}")
        return place % self.count

    def _some(self) -> None:
        if not self.count:
            raise BadValue("The sequence is empty. Check len(sequence) before removing a vector.")


class Stack(Sequence):
    """A mutable stack of vectors.

    Args:
        scheme: A VSA.
        vectors: The first vectors, from the bottom, (n, *shape) or a list.

    >>> from carving import make
    >>> scheme = make("BSC", d=4096)
    >>> plates = scheme.fillers(list("abc"))
    >>> stack = Stack(scheme, plates)
    >>> stack.pop(plates[2])
    >>> scheme.similarity(stack.top, plates).argmax().item()
    1
    """

    def push(self, vector: Tensor) -> None:
        """Add a vector on top."""
        self.append(vector)

    @property
    def top(self) -> Tensor:
        """A noisy version of the vector on top."""
        self._some()
        return self[-1]

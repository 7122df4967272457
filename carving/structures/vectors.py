"""Data structures as single vectors: multisets, sequences, n-grams, hash tables and graphs.

Sets of n vectors have shape (*, n, *shape). Roles act on fillers, `bind(filler, role)`: a key is the role of its value,
a node is the role of its neighbor.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes import algebra
from carving.schemes.base import Scheme
from carving.schemes.vsa import VSA
from carving.tiling import rows_within, slices
from carving.validate import check_integer, check_number

CACHED_BYTES = 2**19  # bytes of n-grams that are made and summed at a time, so that caches hold them
# By which every coordinate is bound by itself.
BOUND_BY_COORDINATE = (algebra.multiply, algebra.segments_rolled, algebra.matrix_left)
IN_PLACE_BINDING: dict[object, Callable[..., Tensor]] = {
    algebra.multiply: torch.mul,
    algebra.exclusive_or: torch.logical_xor,
}


def binding_into(vsa: VSA, vectors: Tensor) -> Callable[..., Tensor] | None:
    """Return a function `(x, role, out=buffer)` that binds into a buffer, None if there is none for these vectors."""
    plain = vectors.dtype == vsa.row.dtype if vsa.row.dtype else vsa.row.operator is None
    return IN_PLACE_BINDING.get(vsa.row.bind_atoms or vsa.row.bind) if plain and not vectors.requires_grad else None


def check_vectors(scheme: Scheme) -> VSA:
    """Return the scheme as a VSA; refuse schemes without vectors as roles."""
    if not isinstance(scheme, VSA):
        named = getattr(scheme, "name", repr(scheme))
        raise BadType(
            f"scheme must be a vector symbolic architecture (VSA), got {named}. "
            "Use Memory(scheme), which stores documents, graphs and trees with every scheme."
        )
    return scheme


def vector_shape(vsa: VSA, vectors: Tensor) -> tuple[int, ...]:
    """Return the shape of one vector: of an atom if the numbers are integers, else of a memory."""
    is_discrete = not (vectors.is_floating_point() or vectors.is_complex())
    return vsa.facts.filler_shape if is_discrete else vsa.facts.memory_shape


def set_dim(scheme: VSA, vectors: Tensor, least: int = 1) -> int:
    """Return the dimension n of vectors (*, n, *shape); refuse other shapes and fewer than `least` vectors."""
    if not isinstance(vectors, Tensor):
        raise BadType(
            f"vectors must be one tensor of shape (*, n, *shape), got {type(vectors).__name__}. Use torch.stack."
        )
    shape = vector_shape(scheme, vectors)
    dim = -1 - len(shape)
    if vectors.dim() < -dim or vectors.shape[dim + 1 :] != shape or vectors.shape[dim] < least:
        wanted = ", ".join(map(str, shape))
        raise BadValue(f"vectors must have shape (*, n, {wanted}) with n >= {least}, got {tuple(vectors.shape)}")
    return dim


def _check_counts(vsa: VSA, names: str, one: Tensor, other: Tensor) -> None:
    """Refuse sets of different numbers of vectors."""
    first, second = set_dim(vsa, one), set_dim(vsa, other)
    if one.shape[first] != other.shape[second]:
        raise BadValue(f"{names} must have the same number of vectors, got {tuple(one.shape)} and {tuple(other.shape)}")


def ordered(vsa: VSA, x: Tensor, shifts: int = 1) -> Tensor:
    """Return vectors permuted to encode positions: rolled, after a shuffle where the architecture needs one.

    A convolution with a rolled vector is a rolled convolution: by rolls alone HRR could not distinguish "ab" and "ba".
    """
    if vsa.row.order is None:
        return vsa.permute(x, shifts)
    order = vsa.row.order(vsa.space).to(x.device)
    # One index: where what stands at each coordinate stood before it was shuffled, rolled and put back. index_select
    # is six times as fast as brackets.
    return x.index_select(-1, order.roll(shifts)[order.argsort()])


def in_order(vsa: VSA, vectors: Tensor) -> Tensor:
    """Return vectors (*, n, *shape), each permuted by the number of vectors after it."""
    dim = set_dim(vsa, vectors)
    return torch.cat([_unshuffled(vsa, part) for part in _permuted(vsa, vectors, dim)], dim)


def _permuted(vsa: VSA, vectors: Tensor, dim: int) -> Iterator[Tensor]:
    """Yield the permuted vectors some rows at a time, coordinates in the order in which they are rolled."""
    count, size = vectors.shape[dim], vectors.shape[dim + 1]
    each = max(1, vectors.numel() // count) * vectors.element_size()
    room, done = rows_within(2 * CACHED_BYTES, each), 0
    while done < count:
        # Of two copies side by side, every row begins one further than the row before: no index is made.
        start = (done + 1 - count) % size
        rows = min(room, count - done, size - start + 1)
        part = vectors.narrow(dim, done, rows)
        if vsa.row.order is not None:
            part = part.index_select(-1, vsa.row.order(vsa.space).to(part.device))
        twice = torch.cat((part, part), dim + 1)
        strides = list(twice.stride())
        strides[dim] += strides[dim + 1]
        yield twice.as_strided(part.shape, strides, start * strides[dim + 1])
        done += rows


def _unshuffled(vsa: VSA, x: Tensor) -> Tensor:
    return x if vsa.row.order is None else x.index_select(-1, vsa.row.order(vsa.space).to(x.device).argsort())


def multiset(scheme: Scheme, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return the bundle of vectors (*, n, *shape).

    >>> from carving import make
    >>> letters = make("MAP-I", d=512).fillers(list("abc"))
    >>> multiset(make("MAP-I", d=512), letters).shape
    torch.Size([512])
    """
    vsa = check_vectors(scheme)
    set_dim(vsa, vectors)
    return vsa.bundle(vectors, generator)


def bundle_sequence(scheme: Scheme, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return a sequence (*, n, *shape) as a bundle; each vector is permuted by the number of vectors after it.

    >>> from carving import make
    >>> fhrr = make("FHRR", d=2048)
    >>> word = bundle_sequence(fhrr, fhrr.fillers(list("abc")))
    >>> fhrr.similarity(fhrr.permute(word, -2), fhrr.fillers(list("abc"))).argmax().item()
    0
    """
    vsa = check_vectors(scheme)
    total = sum_of(vsa.total(part) for part in _permuted(vsa, vectors, set_dim(vsa, vectors)))
    return vsa.bundle(_unshuffled(vsa, total).unsqueeze(-1 - len(vsa.facts.memory_shape)), generator)


def bind_sequence(scheme: Scheme, vectors: Tensor) -> Tensor:
    """Return a sequence (*, n, *shape) as one bound vector, dissimilar to every other sequence.

    >>> from carving import make
    >>> bsc = make("BSC", d=2048)
    >>> same, other = bind_sequence(bsc, bsc.fillers(list("abc"))), bind_sequence(bsc, bsc.fillers(list("acb")))
    >>> abs(bsc.similarity(same, other.unsqueeze(0)).item()) < 0.1
    True
    """
    vsa = check_vectors(scheme)
    return vsa.multibind(in_order(vsa, vectors))


def ngrams(scheme: Scheme, vectors: Tensor, n: int = 3, generator: torch.Generator | None = None) -> Tensor:
    """Return the bundle of all n-grams of a sequence (*, m, *shape), each bound by `bind_sequence`.

    Raises:
        ValueError: The sequence has fewer than n vectors.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=4096)
    >>> text, part = (ngrams(scheme, scheme.fillers(list(letters))) for letters in ("to be or not to be", "to b"))
    >>> (scheme.dot_similarity(text, part.unsqueeze(0)) / 4096).round().item()  # "to " and "o b", each twice
    4.0
    """
    vsa = check_vectors(scheme)
    n = check_integer("n", n, 1, way_out="A typical value is 3.")
    dim = set_dim(vsa, vectors)
    if vectors.shape[dim] < n:
        raise BadValue(f"n must be at most {vectors.shape[dim]}, the length of the sequence, got {n}")
    total = _columns(vsa, vectors, n, dim) if n > 1 and _apart(vsa, vectors, n, dim) else _whole(vsa, vectors, n, dim)
    return vsa.bundle(total.unsqueeze(-1 - len(vsa.facts.memory_shape)), generator)


def _apart(vsa: VSA, vectors: Tensor, n: int, dim: int) -> bool:
    """Whether every coordinate is bound by itself, and there are enough of them."""
    return vsa.row.order is None and vsa.row.bind in BOUND_BY_COORDINATE and vectors.shape[dim + 1] >= 2 * n


def _whole(vsa: VSA, vectors: Tensor, n: int, dim: int) -> Tensor:
    """The sum of all n-grams, bound as whole vectors."""

    def following(after: int, rows: slice) -> Tensor:
        part = vectors.narrow(dim, rows.start + after, rows.stop - rows.start)
        return ordered(vsa, part, n - 1 - after)

    return _windows(vsa, following, n, vectors, dim)


def _columns(vsa: VSA, vectors: Tensor, n: int, dim: int) -> Tensor:
    """Return the sums without a copy: a rolled coordinate stands some columns before, but for n - 1 that wrap."""
    size = vectors.shape[dim + 1]
    around = torch.cat((vectors.narrow(dim + 1, size - n + 1, n - 1), vectors.narrow(dim + 1, 0, n - 1)), dim + 1)

    def sums(source: Tensor, columns: int) -> Tensor:
        def following(after: int, rows: slice) -> Tensor:
            part = source.narrow(dim, rows.start + after, rows.stop - rows.start)
            return part.narrow(dim + 1, after, columns)

        return _windows(vsa, following, n, source, dim)

    return torch.cat((sums(around, n - 1), sums(vectors, size - n + 1)), -len(vsa.facts.memory_shape))


def _windows(vsa: VSA, following: Callable[[int, slice], Tensor], n: int, vectors: Tensor, dim: int) -> Tensor:
    """The sum of n-grams, some rows at a time, so that caches hold them."""
    count = vectors.shape[dim] - n + 1
    each = max(1, vectors.numel() // vectors.shape[dim]) * vectors.element_size()
    parts, into = list(slices(count, rows_within(CACHED_BYTES, each))), binding_into(vsa, vectors)
    room = torch.empty_like(following(0, parts[0])) if into is not None else None

    def bound(rows: slice) -> Tensor:
        grams = following(0, rows)
        for after in range(1, n):
            other = following(after, rows)
            if into is None or room is None:
                grams = vsa.bind_columns(grams, other)
            else:
                grams = into(grams, other, out=room.narrow(dim, 0, rows.stop - rows.start))
        return grams

    return sum_of(vsa.total_columns(bound(rows)) for rows in parts)


def sum_of(parts: Iterable[Tensor]) -> Tensor:
    """Return the sum of one or more tensors."""
    return reduce(torch.add, parts)


def hash_table(scheme: Scheme, keys: Tensor, values: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return a hash table: the bundle of values (*, n, *shape), each bound with its key.

    `scheme.unbind(table, key)` gives a noisy version of the value.

    >>> from carving import make
    >>> hlb = make("HLB", d=4096)
    >>> table = hash_table(hlb, hlb.fillers(["subject", "verb"]), hlb.fillers(["dog", "barks"]))
    >>> hlb.similarity(hlb.unbind(table, hlb.fillers(["verb"])[0]), hlb.fillers(["dog", "barks"])).argmax().item()
    1
    """
    vsa = check_vectors(scheme)
    _check_counts(vsa, "keys and values", keys, values)
    return vsa.bundle(vsa.bind(values, keys), generator)


def graph(
    scheme: Scheme,
    sources: Tensor,
    targets: Tensor,
    *,
    directed: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return a graph as the bundle of its edges.

    Args:
        scheme: A VSA.
        sources, targets: The two ends of n edges, (*, n, *shape).
        directed: Permute targets, so that edges have a direction.
        generator: Breaks ties at random.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=2048)
    >>> nodes = scheme.fillers(list("abcd"))
    >>> ring = graph(scheme, nodes, nodes.roll(-1, 0), directed=True)
    >>> scheme.similarity(scheme.permute(scheme.unbind(ring, nodes[0]), -1), nodes).argmax().item()
    1
    """
    vsa = check_vectors(scheme)
    _check_counts(vsa, "sources and targets", sources, targets)
    return vsa.bundle(edges(vsa, sources, targets, directed), generator)


def edges(vsa: VSA, sources: Tensor, targets: Tensor, directed: bool) -> Tensor:
    """Return edges as vectors (*, n, *shape), or (*, 2n, *shape) where both directions differ."""
    if directed:
        return vsa.bind(ordered(vsa, targets), sources)
    there = vsa.bind(targets, sources)
    if vsa.facts.commutative:
        return there
    return torch.cat((there, vsa.bind(sources, targets)), set_dim(vsa, there))


def nearest(scheme: Scheme, x: Tensor, others: Tensor, threshold: float | None = None) -> Tensor:
    """Return the index (*) of the most similar of others for each vector of x.

    Args:
        scheme: A VSA.
        x: Vectors (*, *shape).
        others: Vectors (n, *shape).
        threshold: Return -1 where no similarity reaches it.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=512)
    >>> nearest(scheme, scheme.fillers(list("bz")), scheme.fillers(list("abc")), threshold=0.5).tolist()
    [1, -1]
    """
    vsa = check_vectors(scheme)
    set_dim(vsa, others)
    if threshold is not None:
        threshold = check_number("threshold", threshold)
    best = vsa.similarity(x, others).max(-1)
    return best.indices if threshold is None else torch.where(best.values >= threshold, best.indices, -1)

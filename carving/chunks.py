"""How much is done at once."""

from collections.abc import Iterator


def slices(count: int, size: int) -> Iterator[slice]:
    """Chunks of `size` that cover `count` rows."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))

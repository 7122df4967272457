"""What commands tell of the index that lies beside a memory's file."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from carving.index.file import index_path
from carving.memory import Memory
from carving.validate import show_bytes


def index_facts(file: FilePath, held: Memory) -> dict[str, object]:
    """Return the size of the index and its number of values for JSON: 0 if it is corrupt or of another memory."""
    there = FilePath(index_path(file))
    if not there.exists():
        return {}
    return dict(index=dict(bytes=there.stat().st_size, values=held._reader.codebook.indexed))


def index_sentences(file: FilePath, held: Memory) -> Iterator[str]:
    """Yield sentences about the index of a memory file."""
    there = FilePath(index_path(file))
    if not there.exists():
        return
    if not held._reader.codebook.indexed:
        yield f"{there} does not match this memory and is ignored. `carving store --index` writes a new one."
        return
    indexed, values, size = held._reader.codebook.indexed, len(held.vocabulary), show_bytes(there.stat().st_size)
    newer = f" of {values:,}; the newer ones are added when the memory is queried" if indexed < values else ""
    yield f"Index: {there}, {size}, {indexed:,} values{newer}."

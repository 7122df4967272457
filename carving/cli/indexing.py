"""What commands tell of the index that lies beside a memory's file."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from carving.checks import show_bytes
from carving.index import beside
from carving.memory import Memory


def index_facts(file: FilePath, held: Memory) -> dict[str, object]:
    """How large it is, and of how many leaves, for JSON: of none where it is of others, or damaged."""
    there = FilePath(beside.beside(file))
    if not there.exists():
        return {}
    return dict(index=dict(bytes=there.stat().st_size, leaves=held._codebook.indexed))


def index_sentences(file: FilePath, held: Memory) -> Iterator[str]:
    """The same for people."""
    there = FilePath(beside.beside(file))
    if not there.exists():
        return
    if not held._codebook.indexed:
        yield f"{there} is no index of these leaves: one is made when it is needed; `carving store --index` writes it"
        return
    indexed, leaves, size = held._codebook.indexed, len(held.vocabulary), show_bytes(there.stat().st_size)
    newer = f" of the {leaves:,}; the newer ones are added when it is needed" if indexed < leaves else ""
    yield f"{there}, {size}, is the index of its {indexed:,} leaves{newer}"

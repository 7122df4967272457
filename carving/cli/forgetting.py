"""What `carving forget` tells: what was taken out, and what was left alone because it is not there."""

from carving.cli.output import count_text, write_limited, write_line
from carving.formats.documents import Pair
from carving.formats.typed import path_text
from carving.memory.forgetting import Strangers
from carving.symbols import Leaf, Path, canonical, canonical_path

WORST = 10  # pairs that are listed as never stored


def never_stored(strangers: Strangers) -> list[Pair]:
    """The strangers of which nothing is there."""
    weaker = {pair_name(path, leaf) for path, leaf, _ in strangers.weaker}
    return [(path, leaf) for path, leaf in strangers if pair_name(path, leaf) not in weaker]


def forgotten_json(gone: int, strangers: Strangers) -> dict[str, object]:
    """What was taken out and what was left alone, for JSON."""
    absent = [dict(path=list(path), leaf=leaf) for path, leaf in never_stored(strangers)]
    weak = [dict(path=list(path), leaf=leaf, strength=strength) for path, leaf, strength in strangers.weaker]
    rest = [dict(path=list(path), leaf=leaf, strength=strength) for path, leaf, strength in strangers.stronger]
    return dict(forgotten=gone, never_stored=absent, weaker=weak, stronger=rest)


def write_forgotten(gone: int, strangers: Strangers, left: int, force: bool) -> None:
    """The same for people."""
    was = "was" if len(strangers) == 1 else "were"
    absent = f"; {len(strangers):,} {'of them ' if force else ''}{was} not found" if strangers else ""
    write_line(f"Removed {count_text(gone, 'pair')}{absent}; {left:,} {'remains' if left == 1 else 'remain'}.")
    lines = [f"probably never stored: {path_text(path)} -> {leaf!r}" for path, leaf in never_stored(strangers)]
    write_limited(lines, WORST, "that were probably never stored")
    lines = [
        f"stored with weight {strength:.2f} instead of 1: {path_text(path)} -> {leaf!r}"
        for path, leaf, strength in strangers.weaker
    ]
    write_limited(lines, WORST, "that are stored with a smaller weight")
    lines = [
        f"removed once, still stored with weight {strength:.2f}: {path_text(path)} -> {leaf!r}"
        for path, leaf, strength in strangers.stronger
    ]
    write_limited(lines, WORST, "that are still stored")


def pair_name(path: Path, leaf: Leaf) -> tuple[bytes, bytes]:
    """What tells a pair from others."""
    return canonical_path(path), canonical(leaf)

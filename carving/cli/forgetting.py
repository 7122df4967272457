"""What `carving forget` tells: what was taken out, and what was left alone because it is not there."""

from carving.cli.output import count_text, write_limited, write_line
from carving.formats.documents import Pair
from carving.formats.typed import path_text
from carving.memory.update import NotFound
from carving.symbols.codec import Path, Value, canonical, canonical_path

WORST = 10  # pairs that are listed as never stored


def never_stored(not_found: NotFound) -> list[Pair]:
    """The strangers of which nothing is there."""
    weaker = {pair_name(path, value) for path, value, _ in not_found.weaker}
    return [(path, value) for path, value in not_found if pair_name(path, value) not in weaker]


def forgotten_json(gone: int, not_found: NotFound) -> dict[str, object]:
    """What was taken out and what was left alone, for JSON."""
    absent = [dict(path=list(path), value=value) for path, value in never_stored(not_found)]
    weak = [dict(path=list(path), value=value, strength=strength) for path, value, strength in not_found.weaker]
    rest = [dict(path=list(path), value=value, strength=strength) for path, value, strength in not_found.stronger]
    return dict(forgotten=gone, never_stored=absent, weaker=weak, stronger=rest)


def write_forgotten(gone: int, not_found: NotFound, left: int, force: bool) -> None:
    """Print how many pairs were removed, and which were not found."""
    was = "was" if len(not_found) == 1 else "were"
    absent = f"; {len(not_found):,} {'of them ' if force else ''}{was} not found" if not_found else ""
    write_line(f"Removed {count_text(gone, 'pair')}{absent}; {left:,} {'remains' if left == 1 else 'remain'}.")
    lines = [f"probably never stored: {path_text(path)} -> {value!r}" for path, value in never_stored(not_found)]
    write_limited(lines, WORST, "that were probably never stored")
    lines = [
        f"stored with weight {strength:.2f} instead of 1: {path_text(path)} -> {value!r}"
        for path, value, strength in not_found.weaker
    ]
    write_limited(lines, WORST, "that are stored with a smaller weight")
    lines = [
        f"removed once, still stored with weight {strength:.2f}: {path_text(path)} -> {value!r}"
        for path, value, strength in not_found.stronger
    ]
    write_limited(lines, WORST, "that are still stored")


def pair_name(path: Path, value: Value) -> tuple[bytes, bytes]:
    """What tells a pair from others."""
    return canonical_path(path), canonical(value)

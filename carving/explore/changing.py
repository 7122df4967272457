"""The view Change: pairs stored and forgotten in a page's copy, and saved to the file on request."""

from carving.errors import BadValue
from carving.explore.asking import meant
from carving.explore.exhibit import Copy, Gallery, Verb
from carving.explore.given import Given
from carving.explore.shown import Json, path_shown, value_shown
from carving.formats.documents import Pair
from carving.memory import Memory
from carving.memory.capacity import collected
from carving.memory.quantized import QuantizedMemory
from carving.storage.locks import acquired, lock_for
from carving.storage.memoryfile import precision

LISTED = 50  # recent changes that are listed


def open_page(gallery: Gallery, given: Given) -> Json:
    """Open a session: a copy of the memory for a page."""
    return dict(session=gallery.open())


def store(gallery: Gallery, given: Given) -> Json:
    """Store a pair in the page's copy."""
    held = gallery.copy(given.text("session"))
    with held.lock, collected() as messages:
        pair = _pair(held, given)
        held.memory.store([pair])
        held.note("store", pair)
    return _done(held, pair, told=messages)


def forget(gallery: Gallery, given: Given) -> Json:
    """Remove a pair from the page's copy, unless it is probably not stored."""
    held = gallery.copy(given.text("session"))
    with held.lock:
        pair = _pair(held, given)
        not_found = held.memory.forget([pair])
        if not not_found:
            held.note("forget", pair)
    return _done(held, pair, stranger=bool(not_found))


def _pair(held: Copy, given: Given) -> Pair:
    if isinstance(held.memory, QuantizedMemory):
        raise BadValue("A quantized memory cannot be changed. Convert it with `carving decode` first.")
    return meant(held, given.text("path"), given.text("value"))


def _done(held: Copy, pair: Pair, stranger: bool = False, told: list[str] | None = None) -> Json:
    return dict(
        path=path_shown(pair[0]),
        value=value_shown(pair[1]),
        left_alone=stranger,
        warnings=told or [],
        **changes_shown(held),
    )


def changes_shown(held: Copy) -> Json:
    """Return the recent changes of a copy, latest first."""
    last = held.changes[: -LISTED - 1 : -1]
    each = [dict(verb=verb, path=path_shown(path), value=value_shown(value)) for verb, (path, value) in last]
    return dict(changes=each, count=len(held.changes), pairs=held.memory.pairs)


def changes(gallery: Gallery, given: Given) -> Json:
    """Return the changes of the page's copy."""
    return changes_shown(gallery.copy(given.text("session")))


def reset(gallery: Gallery, given: Given) -> Json:
    """Discard the changes: give the page a fresh copy."""
    held = gallery.copy(given.text("session"))
    held.reset(gallery.exhibit)
    return changes_shown(held)


def save(gallery: Gallery, given: Given) -> Json:
    """Apply the copy's changes to the file as it is now: all of them, or none."""
    held, file = gallery.copy(given.text("session")), gallery.exhibit.file
    if file is None:
        raise BadValue("The explorer is read-only. Start it with --write to save changes.")
    with held.lock:
        if not held.changes:
            raise BadValue("There are no changes to save. Store or forget something first.")
        with collected(), acquired(lock_for(file), file):  # the page showed the warnings when the copy was changed
            memory = Memory.load(file)
            for verb, pairs in _together(held.changes):
                memory.store(pairs) if verb == "store" else memory.forget(pairs)
            saved = len(held.changes)
            memory.save(file, precision(file, memory.tensor))
            held.changes.clear()  # at once: whatever fails from here on, they are not saved again
            gallery.exhibit.memory, gallery.exhibit.pairs = memory, held.pairs
        held.reset(gallery.exhibit)
        return dict(saved=saved, file=str(file), **changes_shown(held))


def _together(changes: list[tuple[Verb, Pair]]) -> list[tuple[Verb, list[Pair]]]:
    """Group consecutive changes of one kind."""
    parts: list[tuple[Verb, list[Pair]]] = []
    for verb, pair in changes:
        if parts and parts[-1][0] == verb:
            parts[-1][1].append(pair)
        else:
            parts.append((verb, [pair]))
    return parts

"""The view Change: pairs stored and forgotten in a page's copy, and saved to the file on request."""

from collections.abc import Sequence

from carving.errors import BadValue
from carving.explore.params import Params
from carving.explore.queries import interpret_pair
from carving.explore.serializers import Json, path_json, value_json
from carving.explore.sessions import Session, SessionStore, Verb
from carving.formats.documents import Pair
from carving.memory import Memory
from carving.memory.capacity import collected
from carving.memory.quantized import QuantizedMemory
from carving.storage.locks import locked
from carving.storage.memoryfile import precision

MAX_LISTED_CHANGES = 50  # the most recent ones


def open_session(sessions: SessionStore, params: Params) -> Json:
    """Open a session: a copy of the memory for a page."""
    return dict(session=sessions.open())


def store(sessions: SessionStore, params: Params) -> Json:
    """Store a pair in the page's copy."""
    session = sessions.get(params.text("session"))
    with session.lock, collected() as messages:
        pair = _pair(session, params)
        session.memory.store([pair])
        session.record("store", pair)
    return _result(session, pair, warnings=messages)


def forget(sessions: SessionStore, params: Params) -> Json:
    """Remove a pair from the page's copy, unless it is probably not stored."""
    session = sessions.get(params.text("session"))
    with session.lock:
        pair = _pair(session, params)
        not_found = session.memory.forget([pair])
        if not not_found:
            session.record("forget", pair)
    return _result(session, pair, not_found=bool(not_found))


def _pair(session: Session, params: Params) -> Pair:
    if isinstance(session.memory, QuantizedMemory):
        raise BadValue("A quantized memory cannot be changed. Convert it with `carving decode` first.")
    return interpret_pair(session, params.text("path"), params.text("value"))


def _result(session: Session, pair: Pair, not_found: bool = False, warnings: Sequence[str] = ()) -> Json:
    return dict(
        path=path_json(pair[0]),
        value=value_json(pair[1]),
        not_found=not_found,
        warnings=list(warnings),
        **changes_json(session),
    )


def changes_json(session: Session) -> Json:
    """Return the recent changes of a copy, latest first."""
    last = session.changes[: -MAX_LISTED_CHANGES - 1 : -1]
    each = [dict(verb=verb, path=path_json(path), value=value_json(value)) for verb, (path, value) in last]
    return dict(changes=each, count=len(session.changes), pairs=session.memory.pairs)


def changes(sessions: SessionStore, params: Params) -> Json:
    """Return the changes of the page's copy."""
    return changes_json(sessions.get(params.text("session")))


def reset(sessions: SessionStore, params: Params) -> Json:
    """Discard the changes: give the page a fresh copy."""
    session = sessions.get(params.text("session"))
    session.reset(sessions.document)
    return changes_json(session)


def save(sessions: SessionStore, params: Params) -> Json:
    """Apply the copy's changes to the file as it is now: all of them, or none."""
    session, file = sessions.get(params.text("session")), sessions.document.file
    if file is None:
        raise BadValue("The explorer is read-only. Start it with --write to save changes.")
    with session.lock:
        if not session.changes:
            raise BadValue("There are no changes to save. Store or forget something first.")
        with collected(), locked(file):  # the page showed the warnings when the copy was changed
            memory = Memory.load(file)
            for verb, pairs in _grouped(session.changes):
                memory.store(pairs) if verb == "store" else memory.forget(pairs)
            saved = len(session.changes)
            memory.save(file, precision(file, memory.tensor))
            session.changes.clear()  # first: if something fails from here on, they are not saved again
            sessions.document.memory, sessions.document.pairs = memory, session.pairs
        session.reset(sessions.document)
        return dict(saved=saved, file=str(file), **changes_json(session))


def _grouped(changes: list[tuple[Verb, Pair]]) -> list[tuple[Verb, list[Pair]]]:
    """Group consecutive changes of one kind."""
    parts: list[tuple[Verb, list[Pair]]] = []
    for verb, pair in changes:
        if parts and parts[-1][0] == verb:
            parts[-1][1].append(pair)
        else:
            parts.append((verb, [pair]))
    return parts

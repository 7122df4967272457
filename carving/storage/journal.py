"""Journals: changes of a memory that lie beside its file, until the file is written anew with all of them.

`FILE.journal` has a head (a name of its own, the checksum of the file that it belongs to, the base) and records, each a
change: length, sequence, weight, the canonical bytes of paths and values, and a checksum over these and the head. What
a memory holds is its base and then every record. Why nothing is lost, whatever is killed and whenever the power fails:

- A journal comes into being whole, with its first record: written beside, flushed, put in its place, its name flushed.
- Whoever appends to a journal of another writer first flushes its name and its last record: that writer may have been
  killed, or have failed, before it did so.
- A record is written at the end and flushed, before the change counts as made, and before the next one is begun. So
  only the last one can be torn. What is no whole record at the end is ignored, and cut off by who appends next. What
  is no whole record, but has one after it, is no tear but damage, and refused.
- A reader may see a record before it is flushed, and its writer may then fail and cut it off. Whoever looks again
  compares the checksum of the last record that was seen, and if another one stands there, or none, loads all anew.
- Whoever reads takes the journal first, then the base: either that is the one the journal names, or it was put there
  later, with all that the journal says, and the journal is ignored. Readers wait for nobody.
- A new base (compaction, or a memory saved in its place) is on disk, name and all, before the journal goes. Killed in
  between: a journal of another base, which is ignored, goes before the next base comes, and is replaced by the next
  change. If old and new base are the same to the bit, so are their checksums: then the old state holds, base and
  journal, until the journal is gone, and the new one after.
- So a journal that does not name the base that is there goes before another base takes its place, which it might name.

Writers take turns (`places.lock_for`). Two users, who cannot wait for each other there, append one after the other all
the same (a journal is locked while it is written); only where one of them starts a journal or writes a base at the very
moment may the other's last change be lost.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path as FilePath
from typing import BinaryIO

from carving.errors import BadValue
from carving.storage.atomic import flush_folder, put_whole
from carving.storage.locks import Place, disown, own, shown
from carving.storage.records import (
    DIGEST,
    HEAD,
    MAGIC,
    Journal,
    OtherVersion,
    Record,
    continued,
    new_head,
    packed,
    whole,
)
from carving.storage.tensorfile import BadFile, NotWhole, said_by

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # what is said of a journal that is not, or cannot be, there


class Changed(Exception):
    """The journal was changed since it was read."""


def beside(path: Place) -> FilePath:
    """The journal's place: beside the real file."""
    return FilePath(f"{os.path.realpath(path)}.journal")


def possible(path: Place) -> bool:
    """Whether there may be a journal: its name is longer than the file's, and no longer than the system takes."""
    try:
        os.lstat(beside(path))
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


# Reading


def read(path: Place) -> Journal | None:
    """The journal beside a file, of whatever base; None if there is none. Damage is a `BadFile`."""
    place, seen = beside(path), None
    while (data := _content(place)) is not None:
        try:
            return whole(data)
        except NotWhole as problem:
            if data == seen:  # and not: read while another one cut off a torn record, and wrote a new one there
                raise _damaged(place, problem) from None
            seen = data
    return None


def since(path: Place, base: str, seen: Journal | None) -> Journal | None:
    """The base's journal with what was appended since it was seen, as its `records`; `Changed` if it is another one.

    So it is if it lacks what was seen: a change that its writer then gave up, and another in its place.
    """
    if seen is None:
        found = read(path)
        return found if found is not None and found.base == base else None
    place = beside(path)
    try:
        with open(place, "rb", buffering=0) as file:
            _check_seen(file, seen)
            return continued(seen, file.readall())
    except (OSError, NotWhole):  # whoever reads all of it will say what is the matter
        raise Changed from None


def _check_seen(file: FileIO, seen: Journal) -> None:
    """Raise `Changed` if a journal does not begin as it was seen; if it does, what follows is read next."""
    head = file.read(HEAD.size)
    file.seek(seen.end - DIGEST)
    if head != seen.head or file.read(DIGEST) != seen.before_end:
        raise Changed


def names(path: Place, base: str) -> bool:
    """Whether a journal is there that names this base, by its head alone."""
    head = _head(path)
    return len(head) == HEAD.size and Journal(head).base == base


def remains(path: Place, seen: Journal) -> bool:
    """Whether the journal is still there."""
    return _head(path) == seen.head


def _head(path: Place) -> bytes:
    try:
        with open(beside(path), "rb", buffering=0) as file:
            return file.read(HEAD.size)
    except OSError:
        return b""


def _content(place: FilePath) -> bytes | None:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            raise BadFile(
                f"{shown(place)} is not a regular file, but the memory's journal must have this name. Move it away."
            )
        with open(place, "rb", buffering=0) as file:
            return file.readall()
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise


def _damaged(place: FilePath, problem: NotWhole) -> BadFile:
    if isinstance(problem, OtherVersion):
        return BadFile(
            f"{shown(place)} {problem}. It holds changes of the memory beside it: compact that memory with the Carving "
            "that wrote them, or move the journal away to discard them."
        )
    return BadFile(
        f"{shown(place)} is corrupt ({shown(problem)}). It holds changes of the memory beside it. Restore it from a "
        "backup, or move it away to discard them."
    )


# Writing: for those whose turn it is


class InDoubt(OSError):
    """A change could neither be flushed to disk nor be undone, so it may be stored."""


def append(path: Place, base: str, seen: Journal | None, record: Record) -> Journal:
    """The journal with a record more, which is then on disk; one that names another base, or none, is begun anew.

    `Changed` if it is not as it was seen. Whatever fails leaves it as it was, but for `InDoubt`.
    """
    place = beside(path)
    if seen is None or seen.base != base:
        return _begun(place, path, base, record)
    data, written = packed(record, seen), False
    with _locked(place, seen) as file:
        _check_seen(file, seen)
        seen = replace(seen, named=seen.named or flush_folder(place))
        if seen.torn or seen.others:
            _mend(file, seen)
        try:
            _write_all(file, data)
            written = True
            os.fsync(file.fileno())
        except BaseException as error:
            try:
                file.truncate(seen.end)
                os.fsync(file.fileno())
            except OSError:  # what is left of half a record is ignored
                if written and isinstance(error, OSError):
                    raise InDoubt(error.errno, shown(error)) from error
            raise
    return seen.grown(record, data)


def _mend(file: FileIO, seen: Journal) -> None:
    """Cut off a torn record, and flush the last whole one, before another one follows it.

    It is written anew: if flushing it failed once, and its writer was killed, the system holds it for flushed.
    """
    if seen.torn:
        file.truncate(seen.end)
    file.seek(seen.end - len(seen.others))
    _write_all(file, seen.others)
    os.fsync(file.fileno())


def take_back(path: Place, record: Record) -> bool:
    """Cut off a record that was left in doubt, if it is the last one; whether it is there, and others follow it."""
    place, found = beside(path), read(path)
    if found is None or record.identity not in [each.identity for each in found.records]:
        return False
    if found.records[-1].identity != record.identity:
        return True
    with _locked(place, found) as file:
        file.truncate(found.end - len(found.others))
        os.fsync(file.fileno())
    return False


def _begun(place: FilePath, path: Place, base: str, record: Record) -> Journal:
    if not possible(path):
        raise BadValue(f"{shown(place)}, the name of the journal, is too long. Give the file a shorter name.")
    empty = Journal(new_head(base))
    data = packed(record, empty)

    def write(file: BinaryIO) -> None:
        file.write(empty.head + data)

    named = put_whole(place, write, like=os.path.realpath(path))
    return replace(empty, named=named).grown(record, data)


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextmanager
def _locked(place: FilePath, seen: Journal) -> Iterator[FileIO]:
    """Open a journal to write, locked; raise `Changed` if its size is not as it was seen."""
    with _told(place), open(place, "rb+", buffering=0) as file:
        try:
            if not own(file.fileno(), place) or os.fstat(file.fileno()).st_size != seen.size:
                raise Changed
            yield file
        finally:
            disown(file.fileno())


@contextmanager
def _told(place: FilePath) -> Iterator[None]:
    """What the system says of a journal, in a sentence."""
    try:
        yield
    except FileNotFoundError:
        raise Changed from None
    except OSError as error:
        failed = OSError(f"{shown(place)} could not be written ({shown(error)}). Nothing was changed.")
        if isinstance(error, InDoubt):
            failed = InDoubt(
                f"{shown(place)} could not be written ({error.strerror}), and the change could not be undone: it may "
                "be stored. An open memory undoes it before its next change; refresh() keeps it if it was stored."
            )
        failed.errno = error.errno
        raise failed from error


def make_way(path: Place, force: bool = False) -> None:
    """Before another base takes the file's place: let no journal lie there that is not of the one that is there now.

    A file of that name that is no journal, or one with changes of a base that is gone, is given up with `force` only.
    """
    place = beside(path)
    if not os.path.lexists(place):
        return
    found = _there(path, place, force)
    if found is not None and found.base == (said_by(path) or {}).get("checksum"):
        return
    if found is not None and found.count and not os.path.exists(path) and not force:
        raise BadValue(f"{orphaned(path, found)} Or pass force=True to discard the changes.")
    _remove(place)


def _there(path: Place, place: FilePath, force: bool) -> Journal | None:
    """The journal that is there; None for a damaged one. What is no journal at all is given up with `force` only."""
    try:
        return read(path)
    except BadFile:
        if not force and (_content(place) or b"")[: len(MAGIC)] != MAGIC:
            raise BadValue(
                f"{shown(place)} is not a journal of Carving, but the memory's journal must have this name. Move "
                "it away, or pass force=True to delete it."
            ) from None
        return None


def orphaned(path: Place, found: Journal) -> str:
    """What is said of a journal whose base is gone."""
    changes = f"{found.count:,} change{'' if found.count == 1 else 's'}"
    return (
        f"{shown(beside(path))} holds {changes} of a memory file that no longer exists. Restore that file, or move the "
        "journal away."
    )


def retire(path: Place, base: str, flushed: bool) -> None:
    """Once another base has come: its predecessor's journal goes, which is of no use any more.

    If the base's name is not known to be on disk, the old one may come back, and needs its journal. But if the new one
    is the same to the bit, what the journal says would still hold, and it must go.
    """
    place = beside(path)
    same = names(path, base)
    if not flushed and not same:
        return
    try:
        _remove(place)
    except OSError:
        if same:
            raise


def _remove(place: FilePath) -> None:
    """Remove a journal, if there is one, and let the disk know."""
    try:
        place.unlink()
    except OSError as error:
        if error.errno in ABSENT:
            return
        raise
    flush_folder(place)

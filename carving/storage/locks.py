"""Paths of files: checks before writing, locks between writers, and printable names for messages."""

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath

from filelock import FileLock, Timeout

from carving.validate import printable

try:
    import fcntl
except ImportError:  # Windows, where filelock has other means
    fcntl = None  # type: ignore[assignment]
try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

Place = str | os.PathLike[str]

MAX_SHOWN = 400  # characters of a file's own words that a message shows
BUSY = (errno.EACCES, errno.EAGAIN)  # errors of the system for a lock that another process holds
POLL = 0.005  # seconds between two attempts to acquire a lock
NOTICE = 1.0  # seconds of waiting for a lock after which a warning is issued
TURN_LIMIT = 3600.0  # seconds to wait for a lock that only this user's processes can hold, while they write large files
SHARED_LIMIT = 60.0  # seconds to wait for a lock on a file that others may read, and so lock; it is held for one write


class NotLocked(UserWarning):
    """Warning that a file is written without a lock: of two concurrent writers the last one wins."""


class Waiting(UserWarning):
    """Warning that another process holds the lock of a file, so that writing it has to wait."""


def shown(text: object) -> str:
    """Return text for a message: in one line, shortened, with control characters escaped."""
    plain = printable(text)
    return plain if len(plain) <= MAX_SHOWN else f"{plain[:MAX_SHOWN]}..."


def reworded(error: OSError, message: str) -> OSError:
    """Return an error of the system with a message of our own, and its number."""
    failed = type(error)(message)
    failed.errno = error.errno
    return failed


def check_target(file: Place) -> None:
    """Raise an OSError if no file can be written at this path; call it before expensive work.

    Raises:
        IsADirectoryError: The path is a folder.
        FileNotFoundError: Its folder does not exist.
        PermissionError: Its folder is not writable.
    """
    path = FilePath(file)
    folder = FilePath(os.path.realpath(path)).parent  # a link's file lies elsewhere
    if path.is_dir():
        raise IsADirectoryError(f"{shown(path)} is a folder. Name a file.")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The folder of {shown(path)} does not exist: {shown(folder)}. Create it, or choose another one."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder of {shown(path)} is not writable: {shown(folder)}. Choose another one.")


def check_folder(folder: Place) -> None:
    """Raise an OSError if this folder cannot be created or written to; call it before expensive work.

    Raises:
        NotADirectoryError: A file is in the way.
        PermissionError: The folder, or its nearest existing parent, is not writable.
    """
    path = FilePath(folder)
    there = next(above for above in (path, *path.absolute().parents) if above.exists())
    if not there.is_dir():
        raise NotADirectoryError(
            f"{shown(path)} must be a folder, but {shown(there)} is a file. Choose another folder."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{shown(path)} cannot be written: {shown(there)} is not writable. Choose another folder."
        )


# Locks between writers, which lie in a folder of the user


def lock_for(file: Place) -> FileLock:
    """Return the write lock of a file, which is the same for all its names and symbolic links.

    The lock is reentrant, and the system releases it when its process ends. It excludes processes of one user on one
    machine. Writers of other users, machines or containers are not excluded: the file is never corrupted, but the last
    one to save wins, and changes of the others are lost. Readers need no lock.

    Lock files are kept in a folder of the user: `.cache/carving` in the home folder of the passwd entry (whatever HOME
    says), `/tmp` if that cannot be used, or below `CARVING_LOCKS`, which must be the same for all writers.

    Raises:
        OSError: If there is no folder for locks.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()
    return FileLock(_lock_folder() / f"{name}.lock", is_singleton=True)


def acquire_lock(file: Place, limit: float | None = None) -> FileLock:
    """Acquire the write lock of a file; whoever calls this releases it.

    Args:
        file: The file.
        limit: Seconds to wait for another process, `TURN_LIMIT` by default; waiting is announced (`Waiting`).

    Raises:
        TimeoutError: If another process holds the lock for longer.
        OSError: If there is no folder for locks, or its file system has none.
    """
    lock = lock_for(file)
    folder = FilePath(lock.lock_file).parent

    def attempt() -> bool:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        except (OSError, NotImplementedError):
            _check_locks(folder)
            raise
        return True

    if not attempt():
        _check_locks(folder)
        _wait(attempt, file, TURN_LIMIT if limit is None else limit)
    return lock


@contextlib.contextmanager
def locked(file: Place, is_optional: bool = False) -> Iterator[None]:
    """Hold the write lock of a file; an optional one is done without, with a warning, where there are no locks."""
    lock: FileLock | None = None
    try:
        lock = acquire_lock(file)
    except TimeoutError:
        raise
    except OSError as error:
        if not is_optional:
            raise
        message = f"{shown(file)} is written without a lock, so another process may overwrite it: {error}"
        warnings.warn(message, NotLocked, stacklevel=3)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _wait(attempt: Callable[[], bool], file: Place, limit: float) -> None:
    """Repeat an attempt until it succeeds; warn of waiting, and raise TimeoutError after `limit` seconds."""
    start, warned = time.monotonic(), False
    while not attempt():
        waited = time.monotonic() - start
        if waited > limit:
            raise TimeoutError(
                f"The lock of {shown(file)} was not released within {limit:g} s by another process. End that process "
                "(`lslocks` lists it), or try again when it has finished."
            )
        if waited > NOTICE and not warned:
            warned = True
            warnings.warn(
                f"Waiting for another process that holds the lock of {shown(file)}, for at most {limit:g} s.",
                Waiting,
                stacklevel=2,
            )
        time.sleep(POLL)


def _lock_folder() -> FilePath:
    """Return the user's own folder of locks: that of another user would let them stop us, or lead us elsewhere."""
    if named := os.environ.get("CARVING_LOCKS"):
        return _checked_folder(named)
    with contextlib.suppress(OSError, KeyError):  # no home folder, or none to write and lock in
        if pwd is not None:  # not XDG_RUNTIME_DIR: jobs of cron have none, and must exclude those of a session
            cache = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".cache", "carving")
            os.makedirs(cache, exist_ok=True)
            return _checked_folder(cache)
    return _checked_folder("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())


def _checked_folder(place: str) -> FilePath:
    """Return the folder of locks below this one, made where it is missing; one that others can use is refused."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = FilePath(place, f"carving-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        message = f"The folder for locks, {shown(folder)}, cannot be created ({error.strerror}). Set CARVING_LOCKS to "
        raise reworded(error, f"{message}an existing folder on a local disk.") from None
    seen = folder.lstat()
    if hasattr(os, "getuid") and (not stat.S_ISDIR(seen.st_mode) or seen.st_uid != user or seen.st_mode & 0o077):
        raise PermissionError(
            f"{shown(folder)}, the folder for locks, must be yours and closed to others. Remove it, or set "
            "CARVING_LOCKS to a folder where only you can write."
        )
    return folder


def _check_locks(folder: FilePath) -> None:
    """Refuse a file system without locks, where waiting for one would never end."""
    if fcntl is None:
        return
    with open(folder / "trial", "ab") as trial:
        try:
            fcntl.flock(trial, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(
                f"{shown(folder)} is on a file system without locks ({error.strerror}), so two processes could "
                "overwrite each other's changes. Set CARVING_LOCKS to a folder on a local disk."
            ) from None


# Locks of files that are being written, which tell others that their process lives


def lock_open_file(descriptor: int, file: Place) -> bool:
    """Lock a file that is written, until `unlock_open_file`; False if another process has just removed it.

    Warn of waiting, and raise `TimeoutError` after `SHARED_LIMIT`.
    """
    if fcntl is not None:
        _wait(lambda: _try_flock(descriptor) is not False, file, SHARED_LIMIT)
    return os.fstat(descriptor).st_nlink > 0


def unlock_open_file(descriptor: int) -> None:
    """Unlock a file before it is closed: a process that was forked meanwhile has it open, too, and its lock."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_orphaned(descriptor: int, seconds: float) -> bool:
    """Whether the process that wrote an unfinished file is dead; without locks, whether the file is that old."""
    taken = None if fcntl is None else _try_flock(descriptor)
    return time.time() - os.fstat(descriptor).st_mtime > seconds if taken is None else taken


def _try_flock(descriptor: int) -> bool | None:
    """Lock an open file; False if another process holds its lock, None on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in BUSY else None
    return True

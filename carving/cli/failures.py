"""How commands end that fail: a person's mistake is a sentence, a bug of ours a traceback, a closed pipe nothing."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import typer

from carving.cli.output import NotPrinted, errors
from carving.distributed import LostRank
from carving.errors import UserError
from carving.validate import printable

MISTAKE, BUG, CLOSED_PIPE = 2, 3, 141  # exit statuses; the last as of any program that a closed pipe ends
# Advice in errors of the library, and how the command line words it.
ADVICE = (
    ("force=True", "--force"),
    ("Pass the values: `QuantizedMemory.load(file, vocabulary=values)`.", "Pass --vocabulary FILE."),
    ("Omit vocabulary=.", "Omit --vocabulary."),
    ("index=True requires", "--index requires"),
    (
        "Pass the paths, or use a memory that keeps them: Memory(..., keep_paths=True), or grow(paths=..., "
        "keep_paths=True) of this one.",
        "Pass files of the pairs, or run `carving grow MEMORY FILES --keep-paths` with all files that were stored.",
    ),
    (
        "Store the pairs of one in a memory like the other, Memory.like(other); if one keeps its paths, "
        "memory.merge(other) does that.",
        "Run `carving store NEW FILES --like OTHER` with the files of one of them, then merge NEW and OTHER.",
    ),
)
REPORT = "This is a bug in Carving. Please report it to the authors, with the lines above."

show_traceback: ContextVar[bool] = ContextVar("show_traceback", default=False)  # what --traceback says


@contextmanager
def errors_as_sentences(says_what_it_did: bool = False) -> Iterator[None]:
    """Show what a person can mend in a sentence; anything else keeps its traceback, and says where to report it.

    A command that says what it did, once it is done, has not failed where nobody can be told: who then gave it again
    would store everything twice.
    """
    try:
        yield
    except NotPrinted as error:
        _discard_output()
        raise typer.Exit(_unheard(error.__cause__, says_what_it_did)) from None
    except BrokenPipeError:  # who reads us has seen enough, as in `carving ... | head`
        _discard_output()
        raise typer.Exit(CLOSED_PIPE) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        raise typer.Exit(_failed(error)) from None


def _failed(error: Exception) -> int:
    """Report a command that failed, and return its exit status."""
    is_mistake = isinstance(error, UserError | OSError | MemoryError) or _is_lack_of_memory(error)
    if isinstance(error, LostRank) or not is_mistake:  # which the first rank may not be there to tell
        errors.quiet = False
    if show_traceback.get() or not is_mistake:
        _tell(traceback.format_exc())
    _tell(f"Error: {_sentence(error)}" if is_mistake else REPORT)
    return MISTAKE if is_mistake else BUG


def _sentence(error: Exception) -> str:
    """What a person reads of an error that they can mend."""
    message = printable(_advised(str(error)))
    if _is_lack_of_memory(error) or (isinstance(error, MemoryError) and not message):
        return f"Not enough memory. {message}".rstrip()
    return message or type(error).__name__


def _advised(message: str) -> str:
    """The message of an error with advice for the command line."""
    for advice, option in ADVICE:
        message = message.replace(advice, option)
    return message


def _unheard(error: BaseException | None, is_done: bool) -> int:
    """The exit status of a command whose words reach nobody."""
    if is_done:
        _tell(f"Warning: the command succeeded, but its output could not be written: {error}")
        return 0
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    _tell(f"Error: {error}")
    return MISTAKE


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether torch found too little memory, for which it has no class of its own."""
    said = (
        "not enough memory",
        "can't allocate memory",
        "bad_alloc",
    )  # on Windows, on Linux, and by the standard library
    return isinstance(error, RuntimeError) and any(words in str(error) for words in said)


def _tell(text: str) -> None:
    """Show a text to whoever looks; where nobody can, the exit status has to do."""
    with suppress(OSError, ValueError):
        errors.print(text.rstrip("\n"), markup=False, soft_wrap=True)


def _discard_output() -> None:
    """Let Python flush what is left at its end to nowhere, instead of complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a stream that is no file needs nothing
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

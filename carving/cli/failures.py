"""How commands end that fail: a person's mistake is a sentence, a bug of ours a traceback, a closed pipe nothing."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer

from carving.cli.output import errors
from carving.errors import UserError

MISTAKE, BUG, CLOSED_PIPE = 2, 3, 141  # exit statuses; the last as of any program that a closed pipe ends
REPORT = "This is a bug of Carving: please report it with the lines above to the authors of Carving."

show_traceback: ContextVar[bool] = ContextVar("show_traceback", default=False)  # what --traceback says


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Show what a person can mend in a sentence; anything else keeps its traceback, and says where to report it."""
    try:
        yield
    except BrokenPipeError:  # who reads us has seen enough, as in `carving ... | head`
        _discard_output()
        raise typer.Exit(CLOSED_PIPE) from None
    except (UserError, OSError, MemoryError) as error:
        if show_traceback.get():
            traceback.print_exc()
        errors.print(f"Error: {str(error) or 'there is not enough memory'}", markup=False, soft_wrap=True)
        raise typer.Exit(MISTAKE) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception:
        traceback.print_exc()
        errors.print(REPORT, markup=False, soft_wrap=True)
        raise typer.Exit(BUG) from None


def _discard_output() -> None:
    """Let Python flush what is left at its end to nowhere, instead of complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

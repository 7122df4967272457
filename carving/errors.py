"""Errors and warnings caused by user input; the command line prints these errors without a traceback."""

from collections.abc import Callable
from typing import NoReturn


class UserError(Exception):
    """Base class of errors caused by input. The message says what was expected, what was received, and what to do."""


class BadValue(UserError, ValueError):
    """An invalid value."""


class BadType(UserError, TypeError):
    """A value of an unexpected type."""


class UnknownScheme(BadValue):
    """The name of a scheme that is not registered; `carving.register(MyScheme)` adds one."""


class Overfull(UserWarning):
    """Warning that a memory is over capacity: its predicted accuracy is below its target accuracy.

    `warnings.simplefilter("error", Overfull)` turns it into an error, which leaves the memory unchanged.
    """


def refused(why: str) -> Callable[..., NoReturn]:
    """Return a method that raises `BadValue` with this message, for classes that do not support it."""

    def refuse(self: object, *what: object, **how: object) -> NoReturn:
        raise BadValue(why)

    refuse.__doc__ = f"Not supported: raises BadValue. {why}"
    return refuse

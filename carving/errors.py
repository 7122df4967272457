"""What a person can mend, as errors of their own: the command line tells them in a sentence, without a traceback."""

from collections.abc import Callable
from typing import NoReturn


class UserError(Exception):
    """Input that is not what was wanted. The message says what was wanted, what came, and the way out."""


class BadValue(UserError, ValueError):
    """A value that is not possible here."""


class BadType(UserError, TypeError):
    """A thing of another kind than was wanted."""


class Overfull(UserWarning):
    """A memory that is predicted to answer less accurately than it was planned for.

    `warnings.simplefilter("error", Overfull)` makes it an error, which leaves the memory as it was.
    """


def refused(why: str) -> Callable[..., NoReturn]:
    """A method that others of its kind have, and this one refuses."""

    def refuse(self: object, *what: object, **how: object) -> NoReturn:
        raise BadValue(why)

    refuse.__doc__ = f"Refused: {why}."
    return refuse

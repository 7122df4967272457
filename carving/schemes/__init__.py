"""All schemes, by name."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, TypeVar

from carving.errors import BadType, BadValue, UnknownScheme
from carving.schemes.architectures import ARCHITECTURES
from carving.schemes.base import Scheme
from carving.schemes.clifford import CliffordOSC, CliffordTPR
from carving.schemes.osc import OSC
from carving.schemes.tpr import TPR
from carving.schemes.vsa import OPTIONS, VSA
from carving.validate import nearest

__all__ = ["OSC", "SCHEMES", "TPR", "VSA", "CliffordOSC", "CliffordTPR", "Scheme", "make", "register"]

_MAKERS: dict[str, Callable[..., Scheme]] = {
    "OSC": OSC,
    "TPR": TPR,
    "CliffordOSC": CliffordOSC,
    **{name: partial(VSA, name) for name in ARCHITECTURES},
}

SCHEMES = _MAKERS.keys()  # the names of all schemes, those registered later too

S = TypeVar("S", bound=Scheme)


def register(scheme: type[S]) -> type[S]:
    """Make a scheme known by its `name` to `make`, `SCHEMES`, files and the command line; usable as a decorator.

    Args:
        scheme: A subclass of `Scheme` with a class attribute `name` and an argument `d`.

    Raises:
        ValueError: Another scheme has this name, or the scheme has no name or no argument d.

    >>> register(OSC) is OSC  # again: it is known already
    True
    """
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
        raise BadType(f"scheme must be a subclass of carving.Scheme, got {scheme!r}.")
    name = getattr(scheme, "name", None)
    if not isinstance(name, str) or "d" not in signature(scheme).parameters:
        raise BadValue(f"{scheme.__name__} needs a class attribute name and an argument d, which make(name, d) passes.")
    known = _MAKERS.setdefault(name, scheme)
    if known is not scheme and getattr(known, "__module__", "") != scheme.__module__:
        raise BadValue(f"A scheme is called {name!r} already. Choose another name.")
    _MAKERS[name] = scheme  # anew where a module is loaded again
    return scheme


def make(name: str, d: int, **options: Any) -> Scheme:
    """Return the scheme of a name.

    Args:
        name: One of `SCHEMES`, such as "OSC", "TPR" or "HLB".
        d: The side of the memory (OSC, TPR), the dimension of the space (CliffordOSC), or the number of real numbers
            of a memory (the VSAs).
        **options: Further arguments of the scheme.

    Raises:
        UnknownScheme: No scheme of this name is registered.
        ValueError: d or an option is not possible.
        TypeError: The scheme has no such option.

    >>> make("HLB", d=4096).name
    'HLB'
    >>> make("OSC", d=40, p=3).facts.memory_scalars
    64000
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise UnknownScheme(
            f"Unknown scheme {name!r}. {nearest(name, SCHEMES)} For another, import the module that passes it to "
            "carving.register."
        )
    known = options_of(name)
    for option in options:
        if option not in known:
            raise BadType(f"{name} has no option {option!r}. Its options: {', '.join(known)}.")
    return maker(d=d, **options)


def options_of(name: str) -> list[str]:
    """Return the names of the options that `make` takes for a scheme, without d."""
    options = [option for option in signature(_MAKERS[name]).parameters if option != "d"]
    others = set(OPTIONS) - set(ARCHITECTURES[name].options) if name in ARCHITECTURES else set()
    return [option for option in options if option not in others]

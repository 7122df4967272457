"""All schemes, by name."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from carving.errors import BadType, BadValue
from carving.schemes.architectures import ARCHITECTURES
from carving.schemes.base import Scheme
from carving.schemes.clifford import CliffordOSC, CliffordTPR
from carving.schemes.osc import OSC
from carving.schemes.tpr import TPR
from carving.schemes.vsa import OPTIONS, VSA
from carving.validate import nearest

__all__ = ["OSC", "SCHEMES", "TPR", "VSA", "CliffordOSC", "CliffordTPR", "Scheme", "make"]

_MAKERS: dict[str, Callable[..., Scheme]] = {
    "OSC": OSC,
    "TPR": TPR,
    "CliffordOSC": CliffordOSC,
    **{name: partial(VSA, name) for name in ARCHITECTURES},
}

SCHEMES: tuple[str, ...] = tuple(_MAKERS)


def make(name: str, d: int, **options: Any) -> Scheme:
    """Return the scheme of a name.

    Args:
        name: One of `SCHEMES`, such as "OSC", "TPR" or "HLB".
        d: The side of the memory (OSC, TPR), the dimension of the space (CliffordOSC), or the number of real numbers
            of a memory (the VSAs).
        **options: Further arguments of the scheme.

    Raises:
        ValueError: The name is unknown, or d or an option is not possible.
        TypeError: The scheme has no such option.

    >>> make("HLB", d=4096).name
    'HLB'
    >>> make("OSC", d=40, p=3).facts.memory_scalars
    64000
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise BadValue(f"Unknown scheme {name!r}. {nearest(name, SCHEMES)}")
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

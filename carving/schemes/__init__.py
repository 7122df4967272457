"""Every scheme by its name."""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

from carving.checks import nearest
from carving.clifford import CliffordOSC
from carving.errors import BadType, BadValue
from carving.scheme import Scheme
from carving.schemes.architectures import ARCHITECTURES
from carving.schemes.osc import OSC
from carving.schemes.tpr import TPR
from carving.schemes.vsa import VSA

_MAKERS: dict[str, Callable[..., Scheme]] = {
    "OSC": OSC,
    "TPR": TPR,
    "CliffordOSC": CliffordOSC,
    **{name: partial(VSA, name) for name in ARCHITECTURES},
}

SCHEMES: tuple[str, ...] = tuple(_MAKERS)


def make(name: str, d: int, **options: Any) -> Scheme:
    """The scheme of that name: `make("HLB", d=4096)`. `SCHEMES` lists the names.

    >>> make("OSC", d=40, p=3).facts.memory_scalars
    64000
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise BadValue(f"there is no scheme {name!r}; {nearest(name, SCHEMES)}")
    known = signature(maker).parameters
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values()):  # then it looks itself
        for option in options:
            if option not in known:
                has = ", ".join(other for other in known if other != "d")
                raise BadType(f"{name} has no option {option!r}; its options: {has}")
    return maker(d=d, **options)

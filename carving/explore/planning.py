"""The view Plan: the smallest memory of each kind for given requirements, and code that creates it."""

from collections.abc import Iterator
from typing import NamedTuple

from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json
from carving.planner.plan import Plan, drafts, each_plan, plans
from carving.planner.requirements import Requirements, specify
from carving.validate import show_bits

BITS = ("none", "1", "2", "3", "4", "8")  # per cell; none: float32
KNOWN = 64  # cached plans
MANY = 10**7  # the largest number of pairs, or of values


def plan(gallery: Gallery, given: Given) -> Iterator[Json]:
    """Yield drafts, then the smallest memory of each kind as it is found, and finally all plans, the best first."""
    pairs, vocabulary = given.integer("pairs", 1000, 1, MANY), given.integer("vocabulary", 1000, 2, MANY)
    accuracy, bits = given.number("accuracy", 0.99), given.choice("bits", BITS)
    wish = Wished(pairs, vocabulary, accuracy, given.yes("joint"), None if bits == "none" else int(bits))
    specify(pairs, vocabulary, accuracy, 1, wish.requirements)  # refuses impossible requirements
    return _found(wish)


class Wished(NamedTuple):
    """Requirements of a memory."""

    pairs: int
    vocabulary: int
    accuracy: float
    joint: bool
    bits: int | None

    @property
    def requirements(self) -> Requirements:
        """The keyword arguments of the planner."""
        return Requirements(joint=self.joint, bits=self.bits)


def _found(wish: Wished) -> Iterator[Json]:
    to_copy = dict(command=command(wish), python=python(wish))
    if wish not in _known:
        rough = [dict(kind=kind, numbers=numbers) for kind, numbers in drafts(*wish[:3], **wish.requirements)]
        yield dict(drafts=rough, **to_copy)
        for each in each_plan(*wish[:3], **wish.requirements):
            yield dict(plan=plan_shown(each))
        while len(_known) >= KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[wish] = plans(*wish[:3], **wish.requirements)
    yield dict(plans=[plan_shown(each) for each in _known[wish]], **to_copy)


_known: dict[Wished, list[Plan]] = {}


def plan_shown(each: Plan) -> Json:
    """Return a plan as JSON."""
    quantized = "" if each.bits is None else f", quantized to {show_bits(each.bits)} per cell"
    return dict(
        kind=each.kind,
        sizes=", ".join(f"{key}={value}" for key, value in (("d", each.d), ("k1", each.k1)) if value) + quantized,
        numbers=each.numbers,
        cells=each.cells,
        codebook=each.codebook,
        bytes=each.bytes,
        accuracy=each.accuracy,
        operations=each.operations,
        rounds=each.rounds,
    )


def command(wish: Wished) -> str:
    """Return the command that creates an empty memory of the best plan."""
    options = f"{' --joint' if wish.joint else ''}{f' --bits {wish.bits}' if wish.bits else ''}"
    return (
        f"carving plan --pairs {wish.pairs} --vocabulary {wish.vocabulary} --accuracy {wish.accuracy}{options} "
        "--out memory.safetensors"
    )


def python(wish: Wished) -> str:
    """Return a line of Python that creates an empty memory of the best plan."""
    options = f"{', joint=True' if wish.joint else ''}{f', bits={wish.bits}' if wish.bits else ''}"
    sizes = f"pairs={wish.pairs}, vocabulary={wish.vocabulary}, accuracy={wish.accuracy}"
    return f"memory = Memory.for_size({sizes}{options})"

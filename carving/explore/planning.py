"""The view Plan: the smallest memory of each kind for given requirements, and code that creates it."""

from collections.abc import Iterator
from typing import NamedTuple

from carving.explore.params import Params
from carving.explore.serializers import Json
from carving.explore.sessions import SessionStore
from carving.planner.plan import Plan, drafts, each_plan, plans
from carving.planner.requirements import Requirements, specify
from carving.validate import show_bits

BITS = ("none", "1", "2", "3", "4", "8")  # per cell; none: float32
MAX_CACHED_PLANS = 64
MAX_PAIRS = 10**7  # the largest number of pairs, or of values


def plan(sessions: SessionStore, params: Params) -> Iterator[Json]:
    """Yield drafts, then the smallest memory of each kind as it is found, and finally all plans, the best first."""
    pairs, vocabulary = params.integer("pairs", 1000, 1, MAX_PAIRS), params.integer("vocabulary", 1000, 2, MAX_PAIRS)
    accuracy, bits = params.number("accuracy", 0.99), params.choice("bits", BITS)
    request = PlanRequest(
        pairs=pairs,
        vocabulary=vocabulary,
        accuracy=accuracy,
        joint=params.flag("joint"),
        bits=None if bits == "none" else int(bits),
    )
    specify(pairs, vocabulary, accuracy, 1, request.requirements)  # refuses impossible requirements
    return _found(request)


class PlanRequest(NamedTuple):
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


def _found(request: PlanRequest) -> Iterator[Json]:
    to_copy = dict(command=command(request), python=python(request))
    if request not in _known:
        rough = [dict(kind=kind, numbers=numbers) for kind, numbers in drafts(*request[:3], **request.requirements)]
        yield dict(drafts=rough, **to_copy)
        for each in each_plan(*request[:3], **request.requirements):
            yield dict(plan=plan_json(each))
        while len(_known) >= MAX_CACHED_PLANS:
            _known.pop(next(iter(_known)), None)
        _known[request] = plans(*request[:3], **request.requirements)
    yield dict(plans=[plan_json(each) for each in _known[request]], **to_copy)


_known: dict[PlanRequest, list[Plan]] = {}


def plan_json(each: Plan) -> Json:
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


def command(request: PlanRequest) -> str:
    """Return the command that creates an empty memory of the best plan."""
    options = f"{' --joint' if request.joint else ''}{f' --bits {request.bits}' if request.bits else ''}"
    return (
        f"carving plan --pairs {request.pairs} --vocabulary {request.vocabulary} --accuracy {request.accuracy}"
        f"{options} --out memory.safetensors"
    )


def python(request: PlanRequest) -> str:
    """Return a line of Python that creates an empty memory of the best plan."""
    options = f"{', joint=True' if request.joint else ''}{f', bits={request.bits}' if request.bits else ''}"
    sizes = f"pairs={request.pairs}, vocabulary={request.vocabulary}, accuracy={request.accuracy}"
    return f"memory = Memory.for_size({sizes}{options})"

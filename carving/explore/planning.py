"""The view Plan: the smallest memory of each kind for what is wished, and what makes it."""

from functools import lru_cache

from carving.checks import show_bits
from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json
from carving.prediction.plan import Plan, drafts, plans

BITS = ("none", "1", "2", "3", "4", "8")  # of a cell; none stands for real numbers
MANY = 10**7  # pairs, or leaves, that can be wished for


def plan(gallery: Gallery, given: Given) -> Json:
    """The plans, the chosen one first; with `draft`, about how many numbers each kind takes, at once."""
    pairs, vocabulary = given.integer("pairs", 1000, 1, MANY), given.integer("vocabulary", 1000, 2, MANY)
    accuracy, joint, bits = given.number("accuracy", 0.99), given.yes("joint"), given.choice("bits", BITS)
    wish = (pairs, vocabulary, accuracy, joint, None if bits == "none" else int(bits))
    if given.yes("draft"):
        return dict(drafts=[dict(kind=kind, numbers=numbers) for kind, numbers in _drafts(*wish)])
    found = _plans(*wish)
    return dict(
        plans=[plan_shown(each) for each in found],
        command=command(pairs, vocabulary, accuracy, joint, wish[4]),
        python=python(pairs, vocabulary, accuracy, joint, wish[4]),
    )


@lru_cache(maxsize=64)
def _plans(pairs: int, vocabulary: int, accuracy: float, joint: bool, bits: int | None) -> tuple[Plan, ...]:
    return tuple(plans(pairs, vocabulary, accuracy, joint=joint, bits=bits))


@lru_cache(maxsize=64)
def _drafts(pairs: int, vocabulary: int, accuracy: float, joint: bool, bits: int | None) -> list[tuple[str, int]]:
    return drafts(pairs, vocabulary, accuracy, joint=joint, bits=bits)


def plan_shown(each: Plan) -> Json:
    """A plan as the page shows it."""
    sealed = "" if each.bits is None else f", sealed in {show_bits(each.bits)} a cell"
    return dict(
        kind=each.kind,
        sizes=", ".join(f"{key}={value}" for key, value in (("d", each.d), ("k1", each.k1)) if value) + sealed,
        numbers=each.numbers,
        cells=each.cells,
        codebook=each.codebook,
        bytes=each.bytes,
        accuracy=each.accuracy,
        operations=each.operations,
        rounds=each.rounds,
    )


def command(pairs: int, vocabulary: int, accuracy: float, joint: bool, bits: int | None) -> str:
    """The command that makes an empty memory of the chosen plan."""
    options = f"{' --joint' if joint else ''}{f' --bits {bits}' if bits else ''}"
    return (
        f"carving plan --pairs {pairs} --vocabulary {vocabulary} --accuracy {accuracy:g}{options} "
        "--out memory.safetensors"
    )


def python(pairs: int, vocabulary: int, accuracy: float, joint: bool, bits: int | None) -> str:
    """The line of Python that does the same."""
    options = f"{', joint=True' if joint else ''}{f', bits={bits}' if bits else ''}"
    return f"memory = Memory.planned(pairs={pairs}, vocabulary={vocabulary}, accuracy={accuracy:g}{options})"

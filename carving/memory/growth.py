"""Growing: what a memory holds is decoded and stored in one of the size that it is to have, if it is decoded surely."""

from fractions import Fraction

from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.memory.decode_pairs import DecodedPairs
from carving.memory.state import State, keeping
from carving.memory.survey import Survey, naming_accuracy, survey
from carving.planner import plan as planner
from carving.planner.families import FAMILIES
from carving.planner.requirements import Requirements, Target
from carving.schemes import make
from carving.storage.memoryfile import identity
from carving.symbols.vocabulary import Vocabulary
from carving.validate import check_integer

USUAL = 0.99  # the share of all answers that is to be right, where nothing else was ever said
WHOLE = 0.05  # by which a strength may miss a whole number
UNSURE = 0.01  # the share of answers that may be unsure


def check_whole(held: State, found: DecodedPairs, force: bool = False) -> None:
    """Refuse to go on with less than a state holds, or with what it is not sure of."""
    problem = _problem(held, found)
    if problem and not force:
        raise BadValue(f"{problem} Pass force=True to continue with the pairs that were decoded.")


def _problem(held: State, found: DecodedPairs) -> str | None:
    if not held.scheme.facts.linear:
        return f"{held.scheme} has no probabilities, so it is unknown whether its pairs are decoded correctly."
    if abs(held.stored - found.requested) > 0.5:
        return (
            f"The memory holds pairs of total weight {held.stored:,.6g}, but the paths account for only "
            f"{found.requested:,}. Pairs under other paths, and weights other than 1, would be lost. Pass all paths."
        )
    if any(abs(strength - round(strength)) > WHOLE for strength, _ in held.histogram.strengths):
        return "Some pairs have weights that are not whole numbers; they would be stored with weight 1."
    unsure = found.requested - found.confident
    if unsure > UNSURE * found.requested:
        return (
            f"Only {found.confident:,} of {found.requested:,} pairs could be decoded with a probability of 0.9 or "
            "more: the memory is over capacity, or some paths or weights are not as assumed."
        )
    if found.converged is False:
        return f"Joint decoding of {found.requested:,} pairs did not converge: the memory is over capacity."
    return None


def larger(
    held: State,
    pairs: list[Pair],
    wanted: int | None,
    accuracy: float | None,
    keep_paths: bool,
    requirements: Requirements,
) -> State:
    """An empty state for so many pairs like these, by default twice as many; its scheme is of the same kind."""
    if held.codebook.trained is not None:
        raise BadValue(
            "Cannot grow: the memory has trained fillers, which fit one size only. Train fillers for the new size, and "
            "store all pairs in a memory with them."
        )
    expected = _expected(survey(pairs), wanted)
    share = naming_accuracy(USUAL) if held.target is None else held.target.accuracy
    share = share if accuracy is None else naming_accuracy(accuracy)
    own: Requirements = requirements if "scheme" in requirements else {**_as_before(held, expected), **requirements}
    plan = planner.plan(expected.pairs, expected.values, share, expected.shared, **own)
    scheme = make(
        plan.scheme, seed=held.scheme.seed, dtype=held.scheme.dtype, device=held.scheme.device, **plan.parameters
    )
    target = Target(share, plan.pairs, expected.values, plan.joint)
    return State.empty(scheme, Vocabulary(), target=target, known=keeping(keep_paths))


def _expected(seen: Survey, wanted: int | None) -> Survey:
    """What is to be stored in all."""
    if wanted is None:
        return seen.grown(2)
    way_out = "it is the total number of pairs to plan for, including those that are stored"
    return seen.grown(Fraction(check_integer("pairs", wanted, seen.distinct, way_out=way_out), seen.distinct))


def _as_before(held: State, expected: Survey) -> Requirements:
    """What the scheme was, as far as the planner has a choice of it."""
    known, requirements = identity(held.scheme), Requirements()
    if known["name"] in {family.scheme for family in FAMILIES}:
        requirements["scheme"] = known["name"]
    if "basis" in known:
        requirements["basis"] = known["basis"]
    if held.target is not None and held.target.joint and set(expected.shared) == {1}:
        requirements["joint"] = True
        if known.get("spread"):
            requirements["spread"] = known["spread"]
    return requirements

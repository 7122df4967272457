"""Growing: what a memory holds is decoded and stored in one of the size that it is to have, if it is decoded surely."""

from fractions import Fraction

from carving.checks import check_integer
from carving.errors import BadValue
from carving.files import identity
from carving.formats.documents import Pair
from carving.memory.holdings import Holdings
from carving.memory.state import State, keeping
from carving.memory.survey import Survey, naming_accuracy, survey
from carving.prediction import plan as planner
from carving.prediction.goal import Goal
from carving.prediction.kinds import KINDS
from carving.prediction.wish import Wishes
from carving.schemes import make
from carving.vocabulary import Vocabulary

USUAL = 0.99  # the share of all answers that is to be right, where nothing else was ever said
WHOLE = 0.05  # by which a strength may miss a whole number
UNSURE = 0.01  # the share of answers that may be unsure


def check_whole(held: State, found: Holdings, force: bool = False) -> None:
    """Refuse to go on with less than a state holds, or with what it is not sure of."""
    problem = _problem(held, found)
    if problem and not force:
        raise BadValue(f"{problem} Pass force=True to continue with the pairs that were decoded.")


def _problem(held: State, found: Holdings) -> str | None:
    if not held.scheme.facts.linear:
        return f"{held.scheme} has no probabilities, so it is unknown whether its pairs are decoded correctly."
    if abs(held.stored - found.asked) > 0.5:
        return (
            f"The stored pairs have a total weight of {held.stored:,.6g}, but the paths account for {found.asked:,} "
            "pairs: pairs under other paths and weights other than 1 would be lost."
        )
    if any(abs(strength - round(strength)) > WHOLE for strength, _ in held.histogram.strengths):
        return "Some pairs were stored with weights that are not whole numbers, which would become 1."
    unsure = found.asked - found.sure
    if unsure > UNSURE * found.asked:
        return (
            f"Only {found.sure:,} of {found.asked:,} pairs could be decoded with a probability of 0.9 or more: the "
            "memory is over capacity, or some paths or weights are not as assumed."
        )
    if found.converged is False:
        return f"Joint decoding of {found.asked:,} pairs did not converge: the memory is over capacity."
    return None


def larger(
    held: State,
    pairs: list[Pair],
    wanted: int | None,
    accuracy: float | None,
    keep_paths: bool,
    wishes: Wishes,
) -> State:
    """An empty state for so many pairs like these, by default twice as many; its scheme is of the same kind."""
    if held.codebook.trained is not None:
        raise BadValue(
            "Cannot grow: the memory has trained fillers, which fit one size only. Train fillers for the new size, and "
            "store all pairs in a memory with them."
        )
    expected = _expected(survey(pairs), wanted)
    share = naming_accuracy(USUAL) if held.goal is None else held.goal.accuracy
    share = share if accuracy is None else naming_accuracy(accuracy)
    own: Wishes = wishes if "scheme" in wishes else {**_as_before(held, expected), **wishes}
    plan = planner.plan(expected.pairs, expected.leaves, share, expected.shared, **own)
    scheme = make(
        plan.scheme, seed=held.scheme.seed, dtype=held.scheme.dtype, device=held.scheme.device, **plan.parameters
    )
    goal = Goal(share, plan.pairs, expected.leaves, plan.joint)
    return State.empty(scheme, Vocabulary(), goal=goal, known=keeping(keep_paths))


def _expected(seen: Survey, wanted: int | None) -> Survey:
    """What is to be stored in all."""
    if wanted is None:
        return seen.grown(2)
    way_out = "it is the total number of pairs to plan for, including those that are stored"
    return seen.grown(Fraction(check_integer("pairs", wanted, seen.distinct, way_out=way_out), seen.distinct))


def _as_before(held: State, expected: Survey) -> Wishes:
    """What the scheme was, as far as the planner has a choice of it."""
    known, wishes = identity(held.scheme), Wishes()
    if known["name"] in {kind.scheme for kind in KINDS}:
        wishes["scheme"] = known["name"]
    if "basis" in known:
        wishes["basis"] = known["basis"]
    if held.goal is not None and held.goal.joint and set(expected.shared) == {1}:
        wishes["joint"] = True
        if known.get("spread"):
            wishes["spread"] = known["spread"]
    return wishes

"""Capacity of a memory: its predicted accuracy, the warning when it falls short, and the size that pairs need."""

import math
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from carving.distributed.ranks import Ranks
from carving.errors import BadValue, Overfull, UserError
from carving.formats.documents import Pair
from carving.inference.calibration import Consolidated
from carving.inference.sample import Histogram, Loads
from carving.memory.reader import Reader
from carving.memory.state import State, keeping
from carving.planner import plan as planner
from carving.planner.families import FAMILIES, NAMING_SHARE
from carving.planner.requirements import EXPECTED_ACCURACY, Requirements, Target
from carving.schemes import make
from carving.schemes.base import Scheme
from carving.storage.memoryfile import identity
from carving.symbols.codec import canonical, canonical_path
from carving.symbols.vocabulary import Vocabulary
from carving.validate import check_integer, check_number

AGAIN = 1.1  # after a warning, the next one comes at this multiple of its number of pairs
WORTH_TELLING = 0.001  # of the accuracy of what was consolidated that is lost
STEP = 64  # near the limit a prediction holds for a 64th more
SIZES = ("d", "p", "k1", "compact", "basis", "dictionary")  # the parameters of a scheme that predictions take
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)
NEW = "Store all pairs in a larger memory, Memory.for_pairs(pairs), or call grow(paths=...)."
EXPECTED_TARGET = Target(EXPECTED_ACCURACY)  # of memories that were not planned


def predicted_accuracy(
    scheme: Scheme, pairs: int, values: int, joint: bool = False, draft: bool = False, bits: int | None = None
) -> float | None:
    """Return the predicted accuracy of a memory of `pairs` pairs, None if there is no prediction for its scheme.

    A draft takes milliseconds, and is some points off where cores are small. `bits` are those of a quantized cell. A
    vocabulary of one value is predicted as one of two.
    """
    sizes = sizes_of(scheme, joint)
    if sizes is None or not values or not pairs:
        return None
    try:
        return planner.predict(pairs, max(2, values), scheme=identity(scheme)["name"], draft=draft, bits=bits, **sizes)
    except UserError:  # a memory is none the worse for being outside of what is predicted
        return None


def sizes_of(scheme: Scheme, joint: bool) -> dict[str, Any] | None:
    """Return a scheme's parameters as predictions take them; None if there is no prediction for it."""
    known = identity(scheme)
    if not _predictable(known, joint):
        return None
    sizes = {name: known[name] for name in SIZES if name in known} | ({"joint": True} if joint else {})
    return sizes | ({"spread": known["spread"]} if known.get("spread") else {})


def _predictable(known: dict[str, Any], joint: bool) -> bool:
    """Return whether there are predictions for a scheme; contexts of a spread have them for joint decoding only."""
    return known["name"] in ("OSC", "HLB") and known.get("p") != 1 and (joint or not known.get("spread"))


def predicted_of(reader: Reader, more: int = 0, draft: bool = False) -> float | None:
    """Return the predicted accuracy of a memory with `more` additional pairs; of the consolidated pairs, if it was."""
    if reader.calibration is not None:
        return reader.calibration.level(more).accuracy
    joint = reader.target is not None and reader.target.joint
    bits = None if reader.cells is None else reader.cells.bits
    return accuracy_of_loads(reader.scheme, reader.loads(more), _values(reader), joint, draft, bits)


def accuracy_of_loads(
    scheme: Scheme, loads: Loads, values: int, joint: bool = False, draft: bool = False, bits: int | None = None
) -> float | None:
    """Return the predicted accuracy of pairs of several strengths, each with its own load."""
    each = [(share, predicted_accuracy(scheme, load, values, joint, draft, bits)) for load, share in loads]
    known = [share * accuracy for share, accuracy in each if accuracy is not None]
    return sum(known) if len(known) == len(each) else None


def _values(reader: Reader) -> int:
    """Return the vocabulary size; of an empty memory, the size that it was planned for."""
    return len(reader.vocabulary) or (reader.target.vocabulary if reader.target else 0)


def falls_short(reader: Reader) -> bool:
    """Return whether the predicted accuracy is below the target, or EXPECTED_ACCURACY without one."""
    target = reader.target
    if reader.calibration is None and target is not None:
        within = reader.load <= target.pairs and len(reader.vocabulary) <= target.vocabulary
        if within:
            return False
    now = predicted_of(reader)
    return now is not None and (reader.target or EXPECTED_TARGET).missed_by(now)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the messages of `Overfull` instead of warning, in this thread alone, as filters of warnings cannot."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def _warn(message: str) -> None:
    """Warn of an overfull memory, at the first caller outside of this package."""
    messages = _collected.get()
    if messages is not None:
        messages.append(message)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("carving."):
        level, frame = level + 1, frame.f_back
    warnings.warn(Overfull(message), stacklevel=level)


class CapacityMonitor:
    """Warns when changes make a memory miss its target accuracy.

    Within what a memory was planned for, only the load is compared. Beyond it a prediction (1 to 5 ms; for a planned
    memory of small cores 0.1 to 0.25 s) holds until pairs or values grow beyond the next power of two; only near the
    limit are there more.
    """

    def __init__(self) -> None:
        self.fits = (0, 0)  # pairs and values up to which the target is known to be reached
        self.warned = 0  # pairs at the last warning
        self.accuracy = 1.0  # of consolidated pairs, at the last warning

    def reset(self) -> None:
        """Warn again at the next occasion, because pairs were forgotten or consolidated."""
        self.warned, self.accuracy = 0, 1.0

    def check(self, before: Reader, after: Reader) -> None:
        """Warn if a memory misses its target after pairs were stored."""
        if after.calibration is not None:
            self._check_noise(after, after.calibration)
            return
        target, pairs, values = after.target or EXPECTED_TARGET, after.load, len(after.vocabulary)
        for most_pairs, most_values in (self.fits, (target.pairs, target.vocabulary)):
            if pairs <= most_pairs and values <= most_values:
                return
        if pairs <= before.load or pairs < self.warned * AGAIN:
            return
        many = 1 << (pairs - 1).bit_length(), 1 << (values - 1).bit_length()
        draft = after.target is None  # what is little is not known to the point
        rough = predicted_accuracy(after.scheme, *many, joint=target.joint, draft=draft)
        if rough is None or not target.missed_by(rough):
            self.fits = many
            return
        now = predicted_of(after, draft=draft)
        if now is None or not target.missed_by(now):
            self.fits = pairs + pairs // STEP, values + values // STEP
            return
        _warn(sentence(predicted_of(before, draft=draft), now, after))
        self.warned = pairs  # unless warnings are errors

    def _check_noise(self, after: Reader, calibration: Consolidated) -> None:
        """Warn of the accuracy that consolidated pairs lose by the noise of others."""
        was, now = min(calibration.told, self.accuracy), calibration.level().accuracy
        if was - now < WORTH_TELLING:
            return
        _warn(
            f"The added pairs are noise to the consolidated ones: predicted accuracy {now:.1%} on "
            f"{calibration.pairs:,} pairs (was {was:.1%}). Consolidate all pairs again: memory.consolidate(pairs)."
        )
        self.accuracy = now


def sentence(before: float | None, now: float, reader: Reader) -> str:
    """Return the message of `Overfull`."""
    was = "" if before is None else f"was {before:.2%}, "
    target = f"target {100 * reader.target.accuracy:.4g}%" if reader.target else f"{EXPECTED_ACCURACY:.0%} is expected"
    way_out = "Call grow(), which returns a larger memory." if reader.path_counts is not None else NEW
    return f"Memory over capacity: predicted accuracy {now:.2%} at {reader.pairs:,} pairs ({was}{target}). {way_out}"


Times = Counter[tuple[bytes, bytes]]  # of pairs, by the canonical bytes of their paths and values


@dataclass(frozen=True)
class Survey:
    """Numbers of all pairs, of different ones, of values, and of paths with one value, two, ...

    Pairs that come several times are louder than the others: together all are as much noise as `load` that come once.
    """

    pairs: int
    distinct: int
    values: int
    shared: dict[int, int]
    load: int

    def grown(self, headroom: float | Fraction) -> "Survey":
        """Return the survey of `headroom` times these pairs, each stored once: what a memory is planned for.

        Where a path holds nearly every value, others are expected: else nothing would have to be told from anything.
        """
        louder = Fraction(self.load, self.distinct)
        shared = {size: math.ceil(paths * headroom * louder) for size, paths in self.shared.items()}
        distinct = sum(size * paths for size, paths in shared.items())
        values = max(2 * max(shared), math.ceil(self.values * headroom))
        return replace(self, pairs=distinct, distinct=distinct, values=values, shared=shared, load=distinct)


def survey(
    pairs: Iterable[Pair], on_progress: Callable[[int], None] | None = None, ranks: Ranks | None = None
) -> Survey:
    """Survey pairs, which are read once; of several ranks, the pairs of all.

    >>> survey([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "pet")])
    Survey(pairs=3, distinct=3, values=2, shared={1: 1, 2: 1}, load=3)
    """
    ranks = ranks or Ranks.alone()
    times = _own(ranks.agreed(lambda: _counted(pairs, on_progress)), ranks)
    values = {value for _, value in times}
    parts = ranks.swap([{value for value in values if _owner(value, ranks) == rank} for rank in range(ranks.size)])
    sizes = Counter(Counter(path for path, _ in times).values())
    found = ranks.gather((Counter(times.values()), sizes, len(set().union(*parts))))
    repeats = sum((Counter(each[0]) for each in found), Counter[int]())
    shared = sum((Counter(each[1]) for each in found), Counter[int]())
    if not repeats:
        raise BadValue("There must be at least one pair to plan a memory for, got none.")
    total = sum(number * many for number, many in repeats.items())
    load = math.ceil(Histogram(tuple(sorted((float(n), float(many)) for n, many in repeats.items()))).load)
    values_of_all = sum(each[2] for each in found)
    return Survey(
        pairs=total, distinct=repeats.total(), values=values_of_all, shared=dict(sorted(shared.items())), load=load
    )


def _counted(pairs: Iterable[Pair], on_progress: Callable[[int], None] | None) -> Times:
    """Count how often each pair comes."""
    times = Times()
    for path, value in pairs:
        times[canonical_path(path), canonical(value)] += 1
        if on_progress:
            on_progress(1)
    return times


def _own(times: Times, ranks: Ranks) -> Times:
    """Return the counts of all ranks for the paths that this rank counts."""
    if ranks.size == 1:
        return times
    parts = [Times() for _ in range(ranks.size)]
    for (path, value), number in times.items():
        parts[_owner(path, ranks)][path, value] = number
    return sum(map(Counter, ranks.swap(parts)), Times())


def _owner(name: bytes, ranks: Ranks) -> int:
    return zlib.crc32(name) % ranks.size


def naming_accuracy(accuracy: float) -> float:
    """Return the accuracy of naming values that gives this accuracy where "nothing is stored" is an answer, too."""
    if not 0 < check_number("accuracy", accuracy) < 1:
        raise BadValue(f"accuracy must be between 0 and 1, got {accuracy}. The default is 0.99.")
    return 1 - (1 - accuracy) * NAMING_SHARE


def check_headroom(headroom: float) -> float:
    """Return the headroom as a number of at least 1."""
    if not 1 <= check_number("headroom", headroom) < math.inf:
        raise BadValue(f"headroom={headroom} must be a number of at least 1. 2 plans for twice as many pairs.")
    return float(headroom)


DEFAULT_ACCURACY = 0.99  # the share of all answers that is to be right, where nothing else was ever said


def larger(
    reader: Reader,
    pairs: list[Pair],
    wanted: int | None,
    accuracy: float | None,
    keep_paths: bool,
    requirements: Requirements,
) -> State:
    """Return an empty state for `wanted` pairs like these (default: twice as many), of the same kind of scheme."""
    reader.check_changeable()
    if reader.state.trained is not None:
        raise BadValue(
            "Cannot grow: the memory has trained fillers, which fit one size only. Train fillers for the new size, and "
            "store all pairs in a memory with them."
        )
    expected = _expected(survey(pairs), wanted)
    share = naming_accuracy(DEFAULT_ACCURACY) if reader.target is None else reader.target.accuracy
    share = share if accuracy is None else naming_accuracy(accuracy)
    own: Requirements = requirements if "scheme" in requirements else {**_as_before(reader, expected), **requirements}
    plan = planner.plan(expected.pairs, expected.values, share, expected.shared, **own)
    scheme = make(
        plan.scheme, seed=reader.scheme.seed, dtype=reader.scheme.dtype, device=reader.scheme.device, **plan.parameters
    )
    target = Target(share, plan.pairs, expected.values, plan.joint)
    return State.empty(scheme, Vocabulary(), target=target, path_counts=keeping(keep_paths))


def _expected(seen: Survey, wanted: int | None) -> Survey:
    """Return the survey of all pairs to plan for."""
    if wanted is None:
        return seen.grown(2)
    way_out = "It is the total number of pairs to plan for, including those that are stored."
    return seen.grown(Fraction(check_integer("pairs", wanted, seen.distinct, way_out=way_out), seen.distinct))


def _as_before(reader: Reader, expected: Survey) -> Requirements:
    """Return the planner's options that describe the scheme of a memory."""
    known, requirements = identity(reader.scheme), Requirements()
    if known["name"] in {family.scheme for family in FAMILIES}:
        requirements["scheme"] = known["name"]
    if "basis" in known:
        requirements["basis"] = known["basis"]
    if reader.target is not None and reader.target.joint and set(expected.shared) == {1}:
        requirements["joint"] = True
        if known.get("spread"):
            requirements["spread"] = known["spread"]
    return requirements

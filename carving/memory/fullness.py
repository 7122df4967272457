"""How full a memory is: what it is predicted to name, whether that falls short of its goal, and saying so.

Within what a memory was planned for, nothing is computed. Beyond it a prediction (1 to 5 ms; for a planned memory of
small cores 0.1 to 0.25 s) holds for as long as neither pairs nor values grow beyond the next power of two; only near
the limit are there more.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from carving.errors import Overfull, UserError
from carving.inference.sample import Loads
from carving.memory.state import State
from carving.planner import plan as planner
from carving.planner.requirements import DEFAULT_ACCURACY, Target
from carving.schemes.base import Scheme
from carving.storage.memoryfile import identity

AGAIN = 1.1  # told of once, it is told again with so many times the pairs
WORTH_TELLING = 0.001  # of the accuracy of what was consolidated that is lost
STEP = 64  # near the limit a prediction holds for a 64th more
SIZES = ("d", "p", "k1", "compact", "basis", "dictionary")  # the parameters of a scheme that predictions take
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)
NEW = "Store all pairs in a larger memory, Memory.for_pairs(pairs), or call grow(paths=...)."


def predicted_accuracy(
    scheme: Scheme, pairs: int, values: int, joint: bool = False, draft: bool = False, bits: int | None = None
) -> float | None:
    """The share of so many pairs that a memory of this scheme is predicted to name; None where none is predicted.

    A draft takes milliseconds, and is some points off where cores are small. A quantized one has so many bits a cell.
    The only value is told from another that was never stored.
    """
    sizes = sizes_of(scheme, joint)
    if sizes is None or not values or not pairs:
        return None
    try:
        return planner.predict(pairs, max(2, values), scheme=identity(scheme)["name"], draft=draft, bits=bits, **sizes)
    except UserError:  # a memory is none the worse for being outside of what is predicted
        return None


def sizes_of(scheme: Scheme, joint: bool) -> dict[str, Any] | None:
    """A scheme's parameters as predictions take them; None where there are none for it."""
    known = identity(scheme)
    if not _predictable(known, joint):
        return None
    sizes = {name: known[name] for name in SIZES if name in known} | ({"joint": True} if joint else {})
    return sizes | ({"spread": known["spread"]} if known.get("spread") else {})


def _predictable(known: dict[str, Any], joint: bool) -> bool:
    """Whether there are predictions for a scheme; loud contexts are not for single questions."""
    return known["name"] in ("OSC", "HLB") and known.get("p") != 1 and (joint or not known.get("spread"))


def foreseen(held: State, more: int = 0, draft: bool = False) -> float | None:
    """What a state is predicted to name, with so many pairs more; of what was consolidated, if it was."""
    if held.solved is not None:
        return held.solved.after(more).accuracy
    joint = held.target is not None and held.target.joint
    bits = None if held.cells is None else held.cells.bits
    return named(held.scheme, held.loads(more), _values(held), joint, draft, bits)


def named(
    scheme: Scheme, loads: Loads, values: int, joint: bool = False, draft: bool = False, bits: int | None = None
) -> float | None:
    """The share of pairs that is predicted to be named: the louder they are, the less they notice the others."""
    each = [(share, predicted_accuracy(scheme, load, values, joint, draft, bits)) for load, share in loads]
    known = [share * accuracy for share, accuracy in each if accuracy is not None]
    return sum(known) if len(known) == len(each) else None


def _values(held: State) -> int:
    """The values among which one is named; where there are none yet, those that it was planned for."""
    return len(held.vocabulary) or (held.target.vocabulary if held.target else 0)


def falls_short(held: State) -> bool:
    """Whether a state is predicted to name fewer values than its goal, or DEFAULT_ACCURACY, wants."""
    if held.solved is None and _within(held):
        return False
    now = foreseen(held)
    return now is not None and (held.target or Target(DEFAULT_ACCURACY)).missed_by(now)


def _within(held: State) -> bool:
    pairs, values = held.room
    return held.load <= pairs and len(held.vocabulary) <= values


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the messages of `Overfull` instead of warning, in this thread alone, as filters of warnings cannot."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def _warn(message: str, stacklevel: int) -> None:
    messages = _collected.get()
    if messages is None:
        warnings.warn(Overfull(message), stacklevel=stacklevel + 1)
    else:
        messages.append(message)


def told(before: State, after: State) -> State:
    """The state after a change; where it falls short, that is said, as a warning of the function that called."""
    if after.solved is not None:
        return _told_of_noise(after)
    if _within(after):
        return after
    target, pairs, values = after.target or Target(DEFAULT_ACCURACY), after.load, len(after.vocabulary)
    if pairs <= before.load or pairs < before.told * AGAIN:
        return after
    many = 1 << (pairs - 1).bit_length(), 1 << (values - 1).bit_length()
    draft = after.target is None  # what is little is not known to the point
    rough = predicted_accuracy(after.scheme, *many, joint=target.joint, draft=draft)
    if rough is None or not target.missed_by(rough):
        return replace(after, room=many)
    now = foreseen(after, draft=draft)
    if now is None or not target.missed_by(now):
        return replace(after, room=(pairs + pairs // STEP, values + values // STEP))
    _warn(sentence(foreseen(before, draft=draft), now, after), stacklevel=3)
    return replace(after, told=pairs)


def _told_of_noise(after: State) -> State:
    """The state after something was added to what was consolidated; it is said by how much that will be named less."""
    solved = after.solved
    assert solved is not None
    now = solved.level.accuracy
    if solved.told - now < WORTH_TELLING:
        return after
    _warn(
        f"The added pairs are noise to the consolidated ones: predicted accuracy {now:.1%} on {solved.pairs:,} pairs "
        f"(was {solved.told:.1%}). Consolidate all pairs again: memory.consolidate(pairs).",
        stacklevel=4,
    )
    return replace(after, solved=replace(solved, told=now))


def sentence(before: float | None, now: float, held: State) -> str:
    """Return the message of `Overfull`."""
    was = "" if before is None else f"was {before:.2%}, "
    target = f"target {100 * held.target.accuracy:.4g}%" if held.target else f"{DEFAULT_ACCURACY:.0%} is expected"
    way_out = "Call grow(), which returns a larger memory." if held.known is not None else NEW
    return f"Memory over capacity: predicted accuracy {now:.2%} at {held.pairs:,} pairs ({was}{target}). {way_out}"

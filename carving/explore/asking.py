"""The view Ask: the answers to a path, and the scores of all values that explain them."""

from collections.abc import Sequence
from copy import copy

from carving.answers.answer import Answer
from carving.errors import BadValue
from carving.explore.exhibit import Copy, Gallery
from carving.explore.given import Given
from carving.explore.shown import Json, answer_shown, leaf_shown, number, path_shown
from carving.formats.typed import leaf_readings, leaf_text, line_readings
from carving.memory import Memory
from carving.memory.scores import Scores, scores
from carving.memory.sealed import SealedMemory
from carving.symbols import Leaf, Path, canonical_path

KINDS = ("one", "top", "set", "leaf")
PICKED = 40  # suggested paths or values
NAMED = 12  # candidates that are listed by name
DRAWN = 1500  # scores that are sent: of more, a sample at equal steps of the rank
LOOKED = 100_000  # values that are searched for suggestions


def paths(gallery: Gallery, given: Given) -> Json:
    """Return known paths that contain the typed text."""
    known = gallery.copy(given.text("session")).catalogue
    found = known.find(given.text("text", ""), PICKED)
    return dict(paths=list(map(path_shown, found)), known=len(known))


def leaves(gallery: Gallery, given: Given) -> Json:
    """Return values that contain the typed text."""
    vocabulary, wanted = gallery.copy(given.text("session")).memory.vocabulary, given.text("text", "").lower()
    found: list[Leaf] = []
    for row in range(min(len(vocabulary), LOOKED)):
        if wanted in leaf_text(vocabulary[row]).lower():
            found.append(vocabulary[row])
            if len(found) == PICKED:
                break
    return dict(leaves=list(map(leaf_shown, found)), known=len(vocabulary))


def ask(gallery: Gallery, given: Given) -> Json:
    """Return the answers to a path, and the scores of all values."""
    memory, kind = (
        copy(gallery.copy(given.text("session")).memory),
        given.choice("kind", KINDS),
    )  # one snapshot
    absence, line = given.number("absence", 0.5), given.text("path")
    if not len(memory.vocabulary):
        raise BadValue("The memory is empty. Store something first.")
    path, best = _found(memory, line, absence)
    seen = scores(memory, path, absence)
    return dict(
        path=path_shown(path),
        kind=kind,
        answers=list(map(answer_shown, _answers(memory, kind, path, best, given, absence))),
        best=answer_shown(best),
        scores=scores_shown(memory, seen),
    )


def _found(memory: Memory | SealedMemory, line: str, absence: float) -> tuple[Path, Answer]:
    """Return the first reading of a line that is found, or else the last one, with its answer."""
    readings = line_readings(line)
    answers: list[Answer] = memory.recall_many(readings, absence=absence)
    each = list(zip(readings, answers, strict=True))
    return next((pair for pair in each if pair[1].found), each[-1])


def _answers(
    memory: Memory | SealedMemory, kind: str, path: Path, best: Answer, given: Given, absence: float
) -> Sequence[Answer]:
    if kind == "top":
        return memory.recall(*path, top=given.integer("top", 5, 1, 100), absence=absence)
    if kind == "set":
        return memory.recall_set(*path, absence=absence)
    if kind == "leaf":
        wanted = leaf_readings(given.text("leaf"), False)
        if not memory.has_probabilities:
            raise BadValue(
                "This scheme gives no probabilities, so it cannot recognize a value. Ask for the best value."
            )
        found = memory.recognise_many([(path, leaf) for leaf in wanted], absence=absence)
        return [max(found, key=lambda answer: answer.probability)]
    return [best]


def scores_shown(memory: Memory | SealedMemory, seen: Scores) -> Json:
    """Return the scores of all values, best first; a sample if there are many, which includes the best ones."""
    order = seen.strengths.sort(descending=True)
    ranked, total = order.values.tolist(), len(order.values)
    head = ranked[:NAMED]
    step = max(1, -(-(total - NAMED) // DRAWN))
    named = seen.best(NAMED)
    return dict(
        strengths=[round(each, 4) for each in head + ranked[NAMED::step]],
        step=step,
        leaves=total,
        named=[_named(memory, seen, row) for row in named],
        nothing=number(seen.nothing),
        noise=number(seen.noise),
        threshold=number(seen.threshold),
        likeness=seen.likeness,
    )


def _named(memory: Memory | SealedMemory, seen: Scores, row: int) -> Json:
    chance = None if seen.chances is None else number(float(seen.chances[row]))
    return dict(leaf=leaf_shown(memory.vocabulary[row]), strength=float(seen.strengths[row]), probability=chance)


def meant(held: Copy, line: str, leaf: str) -> tuple[Path, Leaf]:
    """Return the typed pair. Known readings come first, then paths of several roles, then numbers."""
    readings = line_readings(line)
    known = held.catalogue.names if len(readings) > 1 else ()
    path = next((each for each in readings if canonical_path(each) in known), None)
    path = path or next((each for each in readings if len(each) > 1), readings[0])
    leaves = leaf_readings(leaf, False)
    return path, next((each for each in leaves if each in held.memory.vocabulary), leaves[0])

"""The view Together: all paths asked at once, round by round."""

from collections.abc import Iterator

from carving.errors import BadValue
from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json, answer_shown, number, path_shown
from carving.memory.holdings import SURE
from carving.memory.watching import Watched

MOST = 4 * 10**8  # paths times leaves: a round of more takes longer than somebody wants to wait
EXAMPLES = 8  # answers that are shown in the end


def together(gallery: Gallery, given: Given) -> Iterator[Json]:
    """The rounds, one after the other, and at last the outcome."""
    held = gallery.copy(given.text("session"))
    memory, pairs = held.memory, held.pairs
    if not pairs and not memory.keeps_paths:
        raise BadValue(
            "this memory keeps no paths, so that nobody knows what to ask for; start the explorer with --files and the "
            "files that were stored, or store them with --keep-paths"
        )
    asked = len(pairs) or memory.pairs
    if asked * len(memory.vocabulary) > MOST:
        raise BadValue(
            f"asking {asked:,} paths of {len(memory.vocabulary):,} leaves together takes minutes; `carving verify "
            "MEMORY FILES --joint` does it with a bar"
        )
    return _rounds(Watched(memory, pairs or None))


def _rounds(watched: Watched) -> Iterator[Json]:
    yield dict(asked=watched.asked, sure_from=SURE)
    for seen in watched:
        yield dict(
            round=seen.number, noise=number(seen.noise), left=number(seen.left), sure=seen.sure, right=seen.right
        )
    answers = watched.answers()
    step = max(1, len(answers) // EXAMPLES)
    examples = [
        dict(path=path_shown(path), answer=answer_shown(answer))
        for path, answer in list(zip(answers.paths, answers, strict=True))[::step][:EXAMPLES]
    ]
    yield dict(converged=answers.converged, rounds=answers.rounds, examples=examples)

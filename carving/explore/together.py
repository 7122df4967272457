"""The view Decode: joint decoding of all paths, round by round."""

from collections.abc import Iterator

from carving.errors import BadValue
from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json, answer_shown, number, path_shown
from carving.memory.decode_pairs import SURE
from carving.memory.watching import Watched

MOST = 4 * 10**8  # paths times values: a round of more takes too long for a page
EXAMPLES = 8  # sample answers


def together(gallery: Gallery, given: Given) -> Iterator[Json]:
    """Yield the rounds, and finally the outcome."""
    held = gallery.copy(given.text("session"))
    memory, pairs = held.memory, held.pairs
    if not pairs and not memory.keeps_paths:
        raise BadValue(
            "This memory does not keep its paths, so there are none to decode. Start the explorer with --files and the "
            "stored files, or store them with --keep-paths."
        )
    asked = len(pairs) or memory.pairs
    if asked * len(memory.vocabulary) > MOST:
        raise BadValue(
            f"Joint decoding of {asked:,} pairs with {len(memory.vocabulary):,} values takes minutes. Run "
            "`carving verify MEMORY FILES --joint` instead."
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

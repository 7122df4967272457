"""The view Decode: joint decoding of all paths, round by round."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.explore.params import Params
from carving.explore.serializers import Json, answer_json, number, path_json
from carving.explore.sessions import SessionStore
from carving.formats.documents import Pair
from carving.inference.answer import Answers
from carving.memory import Memory
from carving.memory.evaluate import SURE
from carving.memory.query import MessagePassing, check_paths
from carving.memory.state import known_paths
from carving.symbols.codec import Path, canonical_path, canonical_values

MAX_SCORES = 4 * 10**8  # paths times values: a round with more takes too long for a page
MAX_SAMPLES = 8  # answers that are shown


class DecodingRound(NamedTuple):
    """The progress of joint decoding after a round."""

    number: int
    noise: float  # the standard deviation of the interference per cell, relative to the first round
    residual: float  # the share of the memory's energy that is not explained yet
    confident: float  # the share of the answers with a probability of at least `SURE`
    correct: float | None  # the share of the answers that are correct, if the pairs are known


class JointDecoding:
    """Joint decoding of a memory, round by round: iterate for the rounds, then take the `answers`.

    Args:
        memory: The memory.
        pairs: Pairs whose paths are decoded, and with whose values answers are compared; by default the paths that the
            memory keeps, without a comparison.
        prior_empty: Prior probability that a path is empty.

    >>> from carving import OSC, Memory
    >>> memory, facts = Memory(OSC(d=40, p=2)), [((f"key {i}",), f"value {i}") for i in range(30)]
    >>> memory.store(facts)
    30
    >>> decoding = JointDecoding(memory, facts)
    >>> [(seen.number, seen.correct) for seen in decoding][-1][1], decoding.answers().converged
    (1.0, True)
    """

    def __init__(self, memory: Memory, pairs: Iterable[Pair] | None = None, prior_empty: float = 0.0) -> None:
        state = memory._reader
        wanted = None if pairs is None else list(pairs)
        paths: Iterable[Path] = known_paths(state.state).each() if wanted is None else (path for path, _ in wanted)
        self._rounds = MessagePassing(state, check_paths(paths, state), prior_empty=prior_empty)
        self.pairs = len(self._rounds.asked)
        self._wanted = None if wanted is None else _wanted_rows(self._rounds, wanted)

    def __iter__(self) -> Iterator[DecodingRound]:
        first = None
        times = torch.tensor(list(self._rounds.times.values()))
        owners = torch.arange(len(times)).repeat_interleave(times)  # of each row, the number of its path
        for step in self._rounds:
            first = first or step.noise or 1.0
            confident = float((step.probabilities >= SURE).double().mean())
            wanted = self._wanted
            correct = None if wanted is None else _count_correct(step.indices, wanted, owners) / self.pairs
            yield DecodingRound(
                number=step.number,
                noise=(step.noise / first) ** 0.5,
                residual=step.left,
                confident=confident,
                correct=correct,
            )

    def answers(self) -> Answers:
        """Return the answers of the best round so far."""
        return self._rounds.answers()


def _wanted_rows(rounds: MessagePassing, pairs: list[Pair]) -> Tensor:
    """Return the vocabulary rows of the values of each path, in the order of `rounds`; unknown values lie beyond."""
    values = defaultdict[bytes, list[int]](list)
    vocabulary = rounds.reader.vocabulary
    rows = vocabulary.rows_of(canonical_values([value for _, value in pairs]))
    for (path, _), row in zip(pairs, rows, strict=True):
        values[canonical_path(path)].append(row if row >= 0 else len(vocabulary))
    return torch.tensor([row for name in rounds.times for row in values[name]])


def _count_correct(indices: Tensor, wanted: Tensor, owners: Tensor) -> int:
    """Count the wanted values that were answered under their paths, in any order.

    Args:
        indices: (n,) the answered rows.
        wanted: (n,) the rows that are correct.
        owners: (n,) the number of the path that each row belongs to.
    """
    if len(owners) and int(owners[-1]) == len(owners) - 1:  # one value per path
        return int((indices.cpu() == wanted).sum())
    answered, held = (Counter(zip(owners.tolist(), rows.tolist(), strict=True)) for rows in (indices, wanted))
    return (answered & held).total()


def decode(sessions: SessionStore, params: Params) -> Iterator[Json]:
    """Yield the rounds, and finally the outcome."""
    session = sessions.get(params.text("session"))
    memory, pairs = session.memory, session.pairs
    if not pairs and not memory.keeps_paths:
        raise BadValue(
            "This memory does not keep its paths, so there are none to decode. Start the explorer with --files and the "
            "stored files, or store them with --keep-paths."
        )
    count = len(pairs) or memory.pairs
    if count * len(memory.vocabulary) > MAX_SCORES:
        raise BadValue(
            f"Joint decoding of {count:,} pairs with {len(memory.vocabulary):,} values takes minutes. Run "
            "`carving verify MEMORY FILES --joint` instead."
        )
    return _rounds(JointDecoding(memory, pairs or None))


def _rounds(decoding: JointDecoding) -> Iterator[Json]:
    yield dict(pairs=decoding.pairs, confident_from=SURE)
    for seen in decoding:
        yield dict(
            round=seen.number,
            noise=number(seen.noise),
            residual=number(seen.residual),
            confident=seen.confident,
            correct=seen.correct,
        )
    answers = decoding.answers()
    step = max(1, len(answers) // MAX_SAMPLES)
    examples = [
        dict(path=path_json(path), answer=answer_json(answer))
        for path, answer in list(zip(answers.paths, answers, strict=True))[::step][:MAX_SAMPLES]
    ]
    yield dict(converged=answers.converged, rounds=answers.rounds, examples=examples)

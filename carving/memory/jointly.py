"""All paths of a memory asked together, round by round, and the answers that come of it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from carving.distributed.ranks import Group
from carving.inference.answer import Answer, Answers
from carving.inference.likelihood import UNSEEN
from carving.inference.together import Decoding, Step
from carving.memory import sharing
from carving.memory.state import State, check_sum
from carving.symbols.codec import Value
from carving.symbols.paths import Paths
from carving.validate import check_prior_empty


class Together:
    """Paths that are asked together; a path that holds several values is given as often.

    Who iterates over it sees the rounds, and may stop; `answers` are then those of the best round so far.
    """

    def __init__(
        self,
        held: State,
        asked: Paths,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
        group: Group = None,
    ) -> None:
        check_sum(held, "decode jointly")
        self.held, self.asked = held, asked
        self.rows, fillers = held.held_candidates(candidates)
        self.times = Counter(asked.names)  # in the order of their first appearance, as distinct paths are
        ranks, own = sharing.shared_paths(held, asked.distinct()[0], group, rounds)
        counts = held.counts[list(self.rows)].clamp_min(0)
        self._decoding = Decoding(
            held.scheme,
            held.observed,
            held.scheme.contexts(asked.distinct()[0][own]),
            fillers,
            rounds=rounds,
            ranks=ranks,
            holds=list(self.times.values())[own],
            prior=counts + UNSEEN,
            shares=counts / max(held.stored, 1.0),
            prior_empty=check_prior_empty(prior_empty),
            strengths=held.strengths,
        )

    def __iter__(self) -> Iterator[Step]:
        return iter(self._decoding)

    def owners(self) -> Iterator[bytes]:
        """The name of the path that each row of a step belongs to."""
        return (name for name, count in self.times.items() for _ in range(count))

    def answers(self) -> Answers:
        """One answer for each path that was given, in its order."""
        held, decoded = self.held, self._decoding.decoded()
        columns = (decoded.indices.tolist(), decoded.scores.tolist(), decoded.probabilities.tolist())
        answers = {name: list[Answer]() for name in self.times}
        for name, index, score, chance in zip(self.owners(), *columns, strict=True):
            value = None if index < 0 else held.vocabulary[self.rows[index]]
            answers[name].append(Answer(value, score, min(chance, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(each, key=lambda answer: not answer.found)) for name, each in answers.items()}
        # Where all that was stored was asked for, cells tell whether it was found.
        whole = held.cells is None or len(self.asked) < held.pairs or decoded.explained
        answered = (next(ordered[name]) for name in self.asked.names)
        return Answers(answered, decoded.converged and whole, decoded.rounds, self.asked)

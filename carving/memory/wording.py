"""Rankings of candidates as answers: one value or nothing, or the most probable values."""

from collections.abc import Callable, Sequence

from torch import Tensor

from carving.inference import likelihood, several
from carving.inference.answer import Answer
from carving.inference.ranking import Ranking
from carving.memory.state import State
from carving.schemes.base import Contexts


def answers(held: State, ranking: Ranking, rows: Sequence[int], prior_empty: float) -> list[list[Answer]]:
    """The best answer of each context, at most one value being there; nothing, if that is more probable."""
    chances, empty = likelihood.probabilities(ranking, prior_empty)
    columns = ranking.best.indices[:, 0], ranking.strengths[:, 0], chances, empty
    return [
        [Answer(None, strength, none, found=False) if none >= chance else Answer(held.value(rows[i]), strength, chance)]
        for i, strength, chance, none in zip(*(column.tolist() for column in columns), strict=True)
    ]


def top_answers(
    held: State,
    contexts: Contexts,
    ranking: Ranking,
    rows: Sequence[int],
    odds_of: Callable[[Tensor], likelihood.Likelihood],
    k: int,
) -> list[list[Answer]]:
    """The k most probable values of each context, which may hold several of them; `odds_of` some rows."""
    listed, indices = ranking.best.indices.unique(return_inverse=True)
    fillers = held.codebook.of([held.value(rows[i]) for i in listed.tolist()])
    ranking = ranking._replace(best=ranking.best._replace(indices=indices))
    chances = several.several(held.scheme, held.tensor, contexts, fillers, ranking, odds_of(listed))
    values = [rows[i] for i in listed.tolist()]
    columns = zip(*(column[:, :k].tolist() for column in chances), strict=True)
    return [
        [Answer(held.value(values[i]), strength, chance) for i, strength, chance in zip(*each, strict=True)]
        for each in columns
    ]

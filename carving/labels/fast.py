"""The fast recipe: a matcher that is solved or counted instead of trained, and rankers where features are many."""

from __future__ import annotations

from dataclasses import replace

from carving.labels import metrics
from carving.labels.blending import Chosen, bias_of
from carving.labels.data import Dataset
from carving.labels.matching import Parts, matchers, ranked, shortlisted, solvable, trusted
from carving.labels.scorer import Scorer
from carving.labels.training import OnProgress, split

HELD = 4_000  # points at most that are held back


def fit(
    data: Dataset, seed: int = 0, on_progress: OnProgress | None = None, rankers: int | None = 1
) -> tuple[Scorer, Chosen]:
    """The scorer, and what the points that were held back chose and said.

    Everything is made twice: of most points, to choose on the others, and of all. Labels of at least so many points
    have `rankers`; None leaves them out.
    """
    parts = Parts(data, *split(data, min(0.15, HELD / len(data)), seed))
    trial, final = (Scorer(None, None, matcher) for matcher in matchers(parts, seed))
    first = None
    if rankers is not None and not solvable(data.features, data.labels.shape[1]):
        matching = trial.matching(parts.most.features)
        first = ranked(matching, parts.most, seed, on_progress, "trial rankers", rankers)
    known = metrics.propensities(parts.most.labels)
    best = trusted(shortlisted(trial.matching(parts.rest.features), first, parts.rest), parts.rest, known)
    held = trial.ranking(first, best.trust, bias_of(known, best.favour)).held(parts.rest)
    if rankers is not None and best.trust:
        rankings = ranked(final.matching(data.features), data, seed, on_progress, least=rankers)
        final = final.ranking(rankings, best.trust)
    bias = bias_of(metrics.propensities(data.labels), best.favour)
    return replace(final, bias=bias), Chosen([], [], [], best.favour, *best.quality, trust=best.trust, held=held)

"""The fast recipe: a matcher that is solved or counted instead of trained, and rankers where features are many."""

from __future__ import annotations

from dataclasses import replace

from carving.labels import metrics
from carving.labels.blending import Chosen, bias_of
from carving.labels.data import Dataset
from carving.labels.matching import Parts, held_back, matchers, ranked, shortlisted, solvable, trusted
from carving.labels.scorer import Rankers, Scorer
from carving.labels.training import OnProgress, split

HELD = 4_000  # points at most that are held back


def fit(data: Dataset, seed: int = 0, on_progress: OnProgress | None = None) -> tuple[Scorer, Chosen]:
    """The scorer, and what the points that were held back chose and said.

    Everything is made twice: of most points, to choose on the others, and of all.
    """
    parts = Parts(data, *split(data, min(0.15, HELD / len(data)), seed))
    trial, final = (Scorer(None, None, matcher) for matcher in matchers(parts, seed))
    first = None
    if not solvable(data.features, data.labels.shape[1]):
        first = ranked(trial.matching(parts.most.features), parts.most, seed, on_progress, "trial rankers")
    best = trusted(
        shortlisted(trial.matching(parts.rest.features), first, parts.rest),
        parts.rest,
        metrics.propensities(parts.most.labels),
    )
    held = held_back(trial, first, best, parts)
    if best.trust:
        rankers = Rankers(ranked(final.matching(data.features), data, seed, on_progress), best.trust)
        final = replace(final, rankers=rankers)
    bias = bias_of(metrics.propensities(data.labels), best.favour)
    chosen = Chosen([], [], [], best.favour, *best.quality, trust=best.trust, held=held)
    return replace(final, bias=bias), chosen

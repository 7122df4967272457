"""The fast recipe: a matcher that is solved or counted instead of trained, and rerankers where features are many."""

from __future__ import annotations

from dataclasses import replace

from carving.multilabel import metrics
from carving.multilabel.blending import Chosen, bias_of
from carving.multilabel.data import Dataset
from carving.multilabel.matching import Parts, Trusted, matchers, ranked, shortlisted, solvable, trusted
from carving.multilabel.scorer import Scorer
from carving.multilabel.thresholds import Held
from carving.multilabel.training import OnProgress

HELD = 4_000  # points at most that are held back


def fit(
    data: Dataset,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    rerankers: int | None = 1,
) -> tuple[Scorer, Chosen]:
    """The scorer, and what the points that were held back chose and said.

    Everything is made twice: of most points, to choose on the others, and of all. Labels of at least so many points
    have `rerankers`; None leaves them out.
    """
    parts = Parts.of(data, min(0.15, HELD / len(data)), seed)
    pair = matchers(parts, seed)
    best, held = _chosen(Scorer(head=None, network=None, matcher=pair.trial), parts, seed, on_progress, rerankers)
    final = pair.final
    del pair, parts  # before anything is made of all points
    scorer = Scorer(head=None, network=None, matcher=final())
    if rerankers is not None and best.trust:
        rankings = ranked(scorer.matching(data.features), data, seed, on_progress, least=rerankers)
        scorer = scorer.ranking(rankings, best.trust)
    bias = bias_of(metrics.propensities(data.labels), best.tail_bias)
    ndcg, psndcg = best.quality
    chosen = Chosen(
        settings=[],
        weights=[],
        units=[],
        tail_bias=best.tail_bias,
        ndcg=ndcg,
        psndcg=psndcg,
        trust=best.trust,
        held=held,
    )
    return replace(scorer, bias=bias), chosen


def _chosen(
    trial: Scorer, parts: Parts, seed: int, on_progress: OnProgress | None, least: int | None
) -> tuple[Trusted, Held]:
    """How much rerankers of most points are trusted by the rest, and what is then said of these."""
    rerankers = None
    if least is not None and not solvable(parts.data.features, parts.data.labels.shape[1]):
        matching = trial.matching(parts.most.features)
        rerankers = ranked(matching, parts.most, seed, on_progress, "trial rerankers", least)
    known = metrics.propensities(parts.most.labels)
    best = trusted(shortlisted(trial.matching(parts.rest.features), rerankers, parts.rest), parts.rest, known)
    return best, trial.ranking(rerankers, best.trust, bias_of(known, best.tail_bias)).held(parts.rest)

"""The recipe for OSC heads: one for all data sets, which looks at a validation part for all that depends on the data.

Three networks are trained with the head: a linear one and a deep one (with a linear path beside it) towards the
direction of the labels' codes, and one that is deep alone, with more dropout, by cross entropy over the label scores.
What each is good at differs, and outputs of networks add as memories do, so the blend costs no more to score than one
of them. To their scores come those of a matcher that is solved or counted, and rerankers look at the best labels. The
validation part says when each network stops, how much of each goes into the blend, how much rerankers are trusted, how
much rare labels are to be favored, and where features are very many, whether networks are needed at all. Matcher and
rerankers are then made of all points, and where these are few, so are the networks. In the end a small network learns
what all of them say together, and is kept instead, unless the validation part says that it lost something.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.multilabel import metrics
from carving.multilabel.blending import Chosen, Propensities, Quality, bias_of, scale_of, weighed
from carving.multilabel.data import Dataset
from carving.multilabel.distilling import distilled, smaller, teachable
from carving.multilabel.heads import Head
from carving.multilabel.maps import Map
from carving.multilabel.matching import Parts, Trusted, matchers, ranked, shortlisted, solvable, trusted
from carving.multilabel.networks import LAZY, Blend, Network
from carving.multilabel.rows import rows_of
from carving.multilabel.scorer import Matcher, Scorer
from carving.multilabel.thresholds import Held
from carving.multilabel.training import AT_ONCE, Settings, Trainer
from carving.multilabel.views import is_dense
from carving.tiling import slices

FEW = 20_000  # points up to which networks are trained again on all of them, where features are few as well
HELD = 4_000  # points at most that are held back for validation, where there are more
BATCHES = {64: 8_000, 128: 20_000}  # points of a batch, by how many there are in all; else 256
NARROW = 2_000  # points below which hidden layers have 256 units: wider ones find no more of so few
WIDE = 2**15  # features above which hidden layers are half as wide: the first one takes most of the time there
FIRST = 2**27  # weights of the first layer at most, by narrower hidden layers; training holds each five times
STEPS = {True: 350, False: 700}  # that are taken at least, of few points and of more, as far as 200 epochs allow
WAVES = 2_000  # of the matcher of dense features
SCORES = 2**26  # of label scores that are kept at a time for each network, to choose the blend
WORTH = 0.03  # of nDCG@5 + PSnDCG@5 that a model may lose if it is many times smaller for it: half of it may be chance

Each = TypeVar("Each")


def head_options(labels: int) -> dict[str, int]:
    """Order, kept and whole dimensions: six core numbers a label, so that few codes are alike; of many labels fewer."""
    kept = min(math.sqrt(6 * labels), 42 * max(1, (labels / 1000) ** 0.25))
    k1 = min(64, max(16, math.ceil(kept)))
    return dict(p=2, k1=k1, d=3 * k1)


def trials(data: Dataset, epochs: int | None = None) -> list[Settings]:
    """The networks that are tried.

    Where features are many, rerankers do what a linear network can, and networks have only to match: fewer are tried,
    for fewer epochs. Where they are very many, all that is held together is one of them. Where points are few, the
    matcher is all that can be said of them linearly.
    """
    linear, deep, both = every(data, epochs)
    if data.features.shape[1] * deep.hidden > LAZY:
        return [deep]
    thorough = len(data) >= NARROW and solvable(data.features, data.labels.shape[1])
    return [linear, deep, both] if thorough else [deep, both]


def every(data: Dataset, epochs: int | None = None) -> list[Settings]:
    """A linear network, a deep one, and one that is both."""
    points, dense = len(data), is_dense(data.features)
    few = points < NARROW
    hidden = 256 if few else 1024 if data.features.shape[1] <= WIDE else 512
    while hidden > 32 and hidden * data.features.shape[1] > FIRST:
        hidden //= 2
    batch = next((size for size, below in BATCHES.items() if points < below), 256)
    most = 15 if solvable(data.features, data.labels.shape[1]) else 5
    epochs = epochs or max(4, min(most, round(400_000 / points)), min(200, math.ceil(STEPS[few] * batch / points)))
    common: dict[str, Any] = dict(
        hidden=hidden,
        feature_scaling="auto",
        schedule="cosine",
        epochs=epochs,
        batch_size=batch,
        learning_rate=1e-3 * math.sqrt(batch / 64),
        patience=max(5, epochs // 4),
    )
    # The fewer points, the more is dropped; of dense features nothing: they are few, and each tells its own.
    words = 0.0 if dense else min(0.5, max(0.1, 0.5 * 5_000 / points))
    return [
        Settings(architecture="linear", loss="head", input_dropout=words, **common),
        Settings(architecture="deep", loss="softmax", input_dropout=words, dropout=0.2 + 0.6 * words, **common),
        # Without dropout of words it learns faster, and by heart: half of the epochs.
        Settings(architecture="both", loss="head", dropout=0.2, **(common | dict(epochs=epochs // 2 + 1))),
    ]


def single(
    data: Dataset, head: str, architecture: str | None = None, epochs: int | None = None, patience: int | None = None
) -> Settings | None:
    """One network where it is wanted: of the networks that are tried for OSC, the published way for other heads.

    None stands for the whole recipe: an OSC head without an `architecture`.
    """
    if head != "OSC":
        return Settings(architecture=architecture or "deep", epochs=epochs or 25, gamma=0.98, patience=patience)
    if architecture is None:
        return None
    known = {settings.architecture: settings for settings in every(data, epochs)}
    return replace(known.get(architecture, known["both"]), architecture=architecture, patience=patience)


class Blended(NamedTuple):
    """How the outputs of networks are blended, and how much of a matcher's scores is added to theirs."""

    weights: list[float]
    units: list[bool]  # which outputs are brought to length 1 before
    share: float  # of the matcher
    quality: Quality

    @property
    def kept(self) -> list[int]:
        """The networks that are in the blend, by their numbers."""
        return [number for number, weight in enumerate(self.weights) if weight > 0]

    def of(self, each: Sequence[Each]) -> list[Each]:
        """Of what there is for each network, that of those in the blend."""
        return [each[number] for number in self.kept]

    def without_networks(self) -> "Blended":
        """The matcher alone."""
        return self._replace(weights=[0.0] * len(self.weights), share=1.0)


class Way(NamedTuple):
    """What the data decide before anything is tried."""

    solved: bool  # labels by ridge regression: features are few
    again: bool  # networks are trained again on all points
    taught: bool  # a student may stand for all in the end
    share: float  # of the points that are held back
    least: int | None  # points that a label with a reranker has

    @classmethod
    def of(cls, data: Dataset, rerankers: int | None) -> Self:
        """The way for these points."""
        solved = solvable(data.features, data.labels.shape[1])
        again = len(data) <= FEW and solved
        # More where networks may not be needed: they alone do not see these points, matcher and rerankers do in the
        # end.
        share = 0.15 if again else min(0.1 if solved else 0.15, HELD / len(data))
        least = (
            None if is_dense(data.features) else rerankers
        )  # rerankers of dense features know no more than a matcher
        return cls(
            solved=solved,
            again=again,
            taught=solved and len(data) >= NARROW and teachable(data),
            share=share,
            least=least,
        )


class Choice(NamedTuple):
    """What the held-back points chose, to be made of all points."""

    chosen: Chosen
    blend: Blended
    networks: list[Network]  # of the blend, which learned from most points
    matcher: Callable[[], Matcher]  # of all points
    tail_bias: float  # of what teaches a student, if there is one
    student: Scorer | None  # of most points


def fit(
    data: Dataset,
    trainer: Trainer,
    tried: list[Settings],
    rerankers: int | None = 1,
) -> tuple[Scorer, Chosen]:
    """Fit a scorer to training points; labels of at least `rerankers` points have a reranker."""
    way = Way.of(data, rerankers)
    choice = _choice(Parts.of(data, way.share, trainer.seed), trainer, tried, way)
    if choice.student is not None and not way.again:
        return choice.student, choice.chosen
    return _whole(data, trainer, choice, way), choice.chosen


def _choice(parts: Parts, trainer: Trainer, tried: list[Settings], way: Way) -> Choice:
    """What is best of all that is tried."""
    networks, ended = _tried(parts, trainer, tried)
    pair, known = matchers(parts, trainer.seed, WAVES), metrics.propensities(parts.most.labels)
    outputs = [outputs_of(network, parts.rest) for network in networks]
    blend = blended(outputs, ended, trainer.head, parts.rest, known, pair.trial)
    options = [blend]
    if blend.kept and not way.solved:
        options.append(blend.without_networks())  # matcher and rerankers of very many features may do as well
    teacher = _smallest([_trial(option, networks, trainer, parts, pair.trial, way.least) for option in options])
    trial, blend = teacher, teacher.blend
    if way.taught and blend.kept and smaller(teacher.whole(known), parts.data):
        trial = _smallest([teacher, _student(teacher, trainer, parts, known)])
    ndcg, psndcg = trial.best.quality
    chosen = Chosen(
        settings=blend.of(ended),
        weights=blend.of(blend.weights),
        units=blend.of(blend.units),
        tail_bias=trial.best.tail_bias,
        ndcg=ndcg,
        psndcg=psndcg,
        share=blend.share,
        trust=teacher.best.trust,
        held=trial.held(parts, known),
        student=trial is not teacher,
    )
    kept = [] if way.again else blend.of(networks)
    return Choice(
        chosen=chosen,
        blend=blend,
        networks=kept,
        matcher=pair.final,
        tail_bias=teacher.best.tail_bias,
        student=trial.scorer if chosen.student else None,
    )


def _whole(data: Dataset, trainer: Trainer, choice: Choice, way: Way) -> Scorer:
    """What was chosen, made of all points."""
    networks, trust = choice.networks, choice.chosen.trust
    if way.again:
        networks = _again(data, trainer, choice.chosen.settings)
    scorer = _scorer(trainer.head, networks, choice.blend, choice.matcher())
    if way.least is not None and trust:
        watch = trainer.seed, trainer.on_progress
        scorer = scorer.ranking(ranked(scorer.matching(data.features), data, *watch, least=way.least), trust)
    if choice.student is None:
        return scorer
    return _taught(replace(scorer, bias=bias_of(metrics.propensities(data.labels), choice.tail_bias)), trainer, data)


class Trial(NamedTuple):
    """A blend as it scores, rerankers that learned from most points, and how much the others trust them."""

    blend: Blended
    scorer: Scorer
    rerankers: Map | None
    best: Trusted

    def whole(self, known: Propensities) -> Scorer:
        """The scorer with its rerankers and what favors rare labels."""
        return self.scorer.ranking(self.rerankers, self.best.trust, bias_of(known, self.best.tail_bias))

    def held(self, parts: Parts, known: Propensities) -> Held:
        """What it says of the points that were held back."""
        return self.whole(known).held(parts.rest)


def _smallest(trials: list[Trial]) -> Trial:
    """The last that loses no more than that is worth: the later ones are smaller."""
    most = max(sum(trial.best.quality) for trial in trials)
    return [trial for trial in trials if sum(trial.best.quality) >= most - WORTH][-1]


def _student(teacher: Trial, trainer: Trainer, parts: Parts, known: Propensities) -> Trial:
    """What comes of a small network that learns from most points what the trial says."""
    scorer = _taught(teacher.whole(known), trainer, parts.most, "trial student")
    short = shortlisted(scorer.matching(parts.rest.features), None, parts.rest)
    return Trial(teacher.blend, scorer, None, trusted(short, parts.rest, known))


def _taught(teacher: Scorer, trainer: Trainer, data: Dataset, name: str = "student") -> Scorer:
    return Scorer(head=None, network=None, matcher=distilled(teacher, data, trainer.seed, trainer.on_progress, name))


def _trial(
    blend: Blended, networks: list[Network], trainer: Trainer, parts: Parts, matcher: Matcher, least: int | None
) -> Trial:
    """What comes of a blend with rerankers of the labels that have at least so many points."""
    scorer, rerankers = _scorer(trainer.head, blend.of(networks), blend, matcher), None
    if least is not None:
        matching, watch = scorer.matching(parts.most.features), (trainer.seed, trainer.on_progress)
        rerankers = ranked(matching, parts.most, *watch, "trial rerankers", least)
    short = shortlisted(scorer.matching(parts.rest.features), rerankers, parts.rest)
    return Trial(blend, scorer, rerankers, trusted(short, parts.rest, metrics.propensities(parts.most.labels)))


def _tried(parts: Parts, trainer: Trainer, tried: list[Settings]) -> tuple[list[Network], list[Settings]]:
    """Networks that learned from most points, and settings that end where each was best."""
    networks, ended = [], []
    for number, settings in enumerate(tried, start=1):
        network, progress = trainer(parts.most, settings, f"trial {number}", len(tried), parts.rest)
        networks.append(network)
        ended.append(replace(settings, patience=None, stop_epoch=progress.best + 1))
    return networks, ended


def _again(data: Dataset, trainer: Trainer, settings: list[Settings]) -> list[Network]:
    """Networks that learned from all points."""
    return [trainer(data, each, f"network {place}", len(settings))[0] for place, each in enumerate(settings, start=1)]


def _scorer(head: Head, networks: list[Network], blend: Blended, matcher: Matcher) -> Scorer:
    """The networks of a blend and its matcher, each if it has a share."""
    network = Blend(networks, blend.of(blend.weights), blend.of(blend.units)).eval() if networks else None
    return Scorer(
        head=head if networks else None, network=network, matcher=matcher.times(blend.share) if blend.share else None
    )


def outputs_of(network: Network, data: Dataset) -> Tensor:
    """A network's outputs for all points, (n, width)."""
    network.eval()
    with torch.no_grad():
        parts = slices(len(data), AT_ONCE)
        return torch.cat([network(rows_of(data.features, part)) for part in parts])


def blended(
    outputs: list[Tensor],
    settings: list[Settings],
    head: Head,
    data: Dataset,
    propensities: Propensities,
    matcher: Matcher | None = None,
) -> Blended:
    """How the outputs are best blended for these labels, and a matcher's scores with theirs.

    Scores of OSC add as outputs do, so each network is scored once; where labels are very many, for fewer points.
    """
    points = np.linspace(0, len(data) - 1, min(len(data), max(1, SCORES // head.count))).round().astype(np.int64)
    data, units = data.take(points), [network.loss == "head" for network in settings]
    sets, scored, scales = rows_of(data.labels), [], []
    for output, unit in zip(outputs, units, strict=True):
        with torch.no_grad():
            scores = head(normalize(output[points], dim=1) if unit else output[points])
        scales.append(scale_of(scores, sets))
        scored.append(scores.mul_(scales[-1]))
    if matcher is not None:
        scored.append(matcher(data.features))  # which are logits as they are
    shares, quality = weighed(scored, data, propensities)
    weights = [share * scale for share, scale in zip(shares, scales, strict=False)]
    return Blended(weights, units, shares[-1] if matcher is not None else 0.0, quality)

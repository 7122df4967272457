"""What a model remembers beside its weights: names of labels, threshold, settings, how points are read.

Facts are JSON; lists of words are their JSON as a tensor of bytes, since they may be long. Nothing is pickled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.errors import BadValue
from carving.multilabel.targets import ARRAY, SETS, SPARSE, LabelFormat
from carving.multilabel.thresholds import Calibration
from carving.multilabel.training import Settings
from carving.multilabel.words import TextVectorizer
from carving.validate import check_integer

NAMES, WORDS, WEIGHTS = "kept/labels", "kept/words", "kept/word weights"
DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Kept:
    """What a model remembers."""

    form: LabelFormat
    calibration: Calibration
    settings: Settings | None = None  # of one network; None is the recipe
    validation: float = 0.15
    epochs: int | None = None
    pool: int = 1
    words: TextVectorizer | None = None  # where the points were texts
    rerank_min_count: int | None = 1  # of labels of so many points
    head_options: dict[str, Any] | None = None  # that were asked for; None are the recipe's


def packed(kept: Kept) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """As facts and tensors of a file."""
    form = kept.form
    dtype = form.dtype.name if form.dtype.name in DTYPES else "int64"
    tensors = {} if form.kind != SETS else {NAMES: _bytes(form.names.tolist())}
    if kept.words is not None:
        tensors |= {WORDS: _bytes(kept.words.vocabulary), WEIGHTS: torch.from_numpy(kept.words.weights.copy())}
    facts = dict(
        form=form.kind,
        dtype=dtype,
        calibration=asdict(kept.calibration),
        settings=None if kept.settings is None else asdict(kept.settings),
        validation=kept.validation,
        epochs=kept.epochs,
        pool=kept.pool,
        rerank_min_count=kept.rerank_min_count,
        head_options=kept.head_options,
    )
    return facts, tensors


def unpacked(facts: dict[str, Any], tensors: dict[str, Tensor], labels: int, features: int) -> Kept:
    """What the file of a model with this number of labels and features says."""
    if facts["form"] not in (ARRAY, SPARSE, SETS) or facts["dtype"] not in DTYPES:
        raise BadValue(f"unknown form {facts['form']!r} or dtype {facts['dtype']!r} of labels")
    if (
        type(facts["validation"]) not in (int, float)
        or not 0 <= facts["validation"] < 1
        or not isinstance(facts["epochs"], int | None)
    ):
        raise BadValue("validation must be at least 0 and less than 1, and epochs an integer")
    rerankers, options = facts["rerank_min_count"], facts["head_options"]
    if not isinstance(options, dict | None):
        raise BadValue("head_options must be an object")
    if rerankers is not None:
        check_integer("rerank_min_count", rerankers, 1)
    return Kept(
        form=LabelFormat(facts["form"], _names(facts["form"], tensors, labels), np.dtype(facts["dtype"])),
        calibration=Calibration.from_facts(facts["calibration"]),
        settings=None if facts["settings"] is None else Settings(**facts["settings"]),
        validation=facts["validation"],
        epochs=facts["epochs"],
        pool=check_integer("pool", facts["pool"], 1),
        words=_words(tensors, features),
        rerank_min_count=rerankers,
        head_options=options,
    )


def _names(form: str, tensors: dict[str, Tensor], labels: int) -> NDArray[Any]:
    """What labels are called: their numbers, where they came in a matrix."""
    if form != SETS:
        return np.arange(labels)
    listed = _list(tensors[NAMES], labels, "labels")
    return np.array(listed, dtype=object if isinstance(listed[0], str) else np.int64)


def _words(tensors: dict[str, Tensor], features: int) -> TextVectorizer | None:
    """The words that features are, where points were texts."""
    if WORDS not in tensors:
        return None
    weights = tensors[WEIGHTS]
    if weights.shape != (features,) or weights.dtype != torch.float64:
        raise BadValue(f"expected float64 weights of {features} words, got {tuple(weights.shape)}, {weights.dtype}")
    return TextVectorizer(_list(tensors[WORDS], features, "words"), weights.numpy())


def _bytes(words: list[Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(words).encode()), dtype=torch.uint8)


def _list(tensor: Tensor, count: int, what: str) -> list[Any]:
    listed = json.loads(bytes(tensor.numpy().tobytes()))
    kinds = {type(word) for word in listed} if isinstance(listed, list) else set()
    if len(kinds) != 1 or not kinds <= {str, int} or len(listed) != count or len(set(listed)) != count:
        raise BadValue(f"expected {count} distinct {what}, all strings or all integers")
    return listed

"""Texts as features: tf-idf by scikit-learn's TfidfVectorizer, stored as plain data.

A file of texts has a JSON object per line, with a text and its labels: {"text": "...", "labels": ["sea", "sun"]}.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from carving.errors import BadValue
from carving.formats import BadLineError
from carving.multilabel.text import lines_of, unpacked
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MANY = 2_000  # texts from which on words that stand in one alone are left out
MOST = 2**18  # words that are kept, the most frequent ones


class Texts(NamedTuple):
    """What a file of texts holds."""

    texts: list[str]
    labels: list[list[str]]  # empty where a line names none


@dataclass(frozen=True, eq=False)
class TextVectorizer:
    """Vocabulary and idf weights that turn texts into features.

    >>> words = TextVectorizer.fitted(["the sea and the sun", "the snow"])
    >>> words.vocabulary, words(["more sun and sea"]).indices.tolist()
    (['and', 'sea', 'snow', 'sun', 'the'], [0, 1, 3])
    """

    vocabulary: list[str]  # by column
    weights: NDArray[np.float64]  # (F,), inverse frequencies

    @classmethod
    def fitted(cls, texts: Sequence[str]) -> Self:
        """Return the vocabulary and the idf weights of texts."""
        vectorizer = _vectorizer(min_df=2 if len(texts) >= MANY else 1, max_features=MOST)
        try:
            vectorizer.fit(texts)
        except ValueError:
            raise BadValue("The texts contain no word of two letters or more, so there are no features.") from None
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.astype(np.float64))

    def __call__(self, texts: Sequence[str]) -> csr_matrix:
        """Return the tf-idf features (n, F) of texts; unknown words are ignored."""
        vectorizer = _vectorizer(vocabulary=self.vocabulary)
        vectorizer.idf_ = self.weights.astype(np.float32)
        return vectorizer.transform(texts)


def _vectorizer(**options: Any) -> Any:
    return load("sklearn.feature_extraction.text").TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)


def is_texts(given: object) -> TypeGuard[Sequence[str]]:
    """Whether they are texts, one a point."""
    if isinstance(given, str) or not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        return False
    if getattr(given, "ndim", 1) != 1 or not len(given):
        return False
    return all(isinstance(text, str) for text in given)  # type: ignore[attr-defined]


def holds_texts(path: Path) -> bool:
    """Whether the name of a file says that it holds texts."""
    return unpacked(path).suffix.lower() == ".jsonl"


def read_texts(path: Path) -> Texts:
    """Read the texts of a file and their labels."""
    texts, labels = [], []
    with lines_of(path) as lines:
        for number, line in lines:
            if line.strip():
                text, own = _parsed(path, number, line)
                texts.append(text)
                labels.append(own)
    if not texts:
        raise BadValue(
            f'{path} contains no texts. Expected a JSON object per line: {{"text": "...", "labels": ["...", "..."]}}'
        )
    return Texts(texts, labels)


def _parsed(path: Path, number: int, line: bytes) -> tuple[str, list[str]]:
    expected = 'expected {"text": "...", "labels": ["...", "..."]}'
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise BadLineError(str(path), number, f"not valid JSON; {expected}") from None
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise BadLineError(str(path), number, f'no string under "text"; {expected}')
    labels = found.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str | int) for label in labels):
        raise BadLineError(str(path), number, f'"labels" must be a list of strings or integers; {expected}')
    return found["text"], [str(label) for label in labels]

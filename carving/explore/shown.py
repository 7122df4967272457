"""Labels, paths and answers as JSON: the text to show, and the text to type for it."""

import math

from carving.answers.answer import Answer
from carving.formats.typed import label_argument, leaf_text, path_line, path_text
from carving.symbols import Leaf, Path

Json = dict[str, object]


def leaf_shown(leaf: Leaf) -> Json:
    """Return a value: its text, and what to type for it (null if no text can)."""
    return dict(text=leaf_text(leaf), typed=label_argument(leaf))


def path_shown(path: Path) -> Json:
    """Return a path: its text, and the line to type for it (null if no line can)."""
    return dict(text=path_text(path), typed=path_line(path))


def answer_shown(answer: Answer) -> Json:
    """Return an answer; a missing probability is null."""
    leaf = leaf_shown(answer.leaf) if answer.found or answer.leaf is not None else None
    return dict(leaf=leaf, score=number(answer.score), probability=number(answer.probability), found=answer.found)


def number(value: float | None) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return value if value is not None and math.isfinite(value) else None

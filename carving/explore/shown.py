"""Labels, paths and answers as the page gets them: what is shown, and what is to be typed to mean the same."""

import math

from carving.answers.answer import Answer
from carving.formats.typed import label_argument, leaf_text, path_line, path_text
from carving.symbols import Leaf, Path

Json = dict[str, object]


def leaf_shown(leaf: Leaf) -> Json:
    """A leaf: its text, and what names it when typed; null if nothing does."""
    return dict(text=leaf_text(leaf), typed=label_argument(leaf))


def path_shown(path: Path) -> Json:
    """A path: its text, and the line that names it; null if none does."""
    return dict(text=path_text(path), typed=path_line(path))


def answer_shown(answer: Answer) -> Json:
    """An answer; no probability is null."""
    leaf = leaf_shown(answer.leaf) if answer.found or answer.leaf is not None else None
    return dict(leaf=leaf, score=number(answer.score), probability=number(answer.probability), found=answer.found)


def number(value: float | None) -> float | None:
    """A number for JSON, which has no not-a-number."""
    return value if value is not None and math.isfinite(value) else None

"""Labels, paths and answers as JSON: the text to show, and the text to type for it."""

import math

from carving.formats.typed import label_argument, path_line, path_text, value_text
from carving.inference.answer import Answer
from carving.symbols.codec import Path, Value

Json = dict[str, object]


def value_json(value: Value) -> Json:
    """Return a value: its text, and what to type for it (null if no text can)."""
    return dict(text=value_text(value), typed=label_argument(value))


def path_json(path: Path) -> Json:
    """Return a path: its text, and the line to type for it (null if no line can)."""
    return dict(text=path_text(path), typed=path_line(path))


def answer_json(answer: Answer) -> Json:
    """Return an answer; a missing probability is null."""
    value = value_json(answer.value) if answer.found or answer.value is not None else None
    return dict(value=value, score=number(answer.score), probability=number(answer.probability), found=answer.found)


def number(value: float | None) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return value if value is not None and math.isfinite(value) else None

"""What notebooks show of an object: a small table as HTML, in which everything is text."""

from collections.abc import Iterable
from html import escape


def table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A title and rows of a name and a value.

    >>> table("Answer", [("value", "<b>")])
    '<table><caption><strong>Answer</strong></caption><tr><th scope="row">value</th><td>&lt;b&gt;</td></tr></table>'
    """
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f"<table><caption><strong>{escape(title)}</strong></caption>{cells}</table>"

"""Tables for people: names on the left, numbers on the right that are never cut off."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table


def number_table(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    """A table of columns by their headers; all but the first hold numbers. A number that is cut off says another."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, (header, cells) in enumerate(columns.items()):
        if place == 0:
            table.add_column(header)
        else:
            table.add_column(header, justify="right", min_width=max(map(len, [header, *cells])))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table

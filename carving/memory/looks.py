"""What a memory looks like in a notebook: a table of facts, and pictures."""

from typing import Any

from carving.checks import show_bits, show_bytes
from carving.memory.census import held_bytes
from carving.memory.picture import picture, question_picture
from carving.memory.questions import check_roles
from carving.memory.reliability import Reliability
from carving.notebooks import table
from carving.schemes.words import words_of
from carving.symbols import Role


class Looks(Reliability):
    """How a memory is shown."""

    def plot(self, *path: Role, absence: float = 0.5) -> Any:
        """A matplotlib figure of its cells and how full it is; of a path, the scores of all leaves there.

        It needs the extra `plots`.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> figure = memory.plot("dog", "says")
        >>> figure.axes[0].get_title(loc="left")
        'dog / says'
        """
        return question_picture(self, check_roles(path), absence) if path else picture(self)

    def _repr_html_(self) -> str:
        held, named = self._state, self.predicted()
        rows = [
            ("holds", f"{self.pairs:,} pairs of {len(self.vocabulary):,} different leaves"),
            ("scheme", words_of(self.scheme)),
            ("size", show_bytes(held_bytes(self))),
        ]
        if held.cells is not None:
            rows.append(("sealed", f"{show_bits(held.cells.bits)} a cell"))
        if named is not None:
            rows.append(("predicted", f"{named:.2%} of its leaves are named"))
        return table(type(self).__name__, rows)

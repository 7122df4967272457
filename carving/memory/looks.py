"""Display of memories in notebooks: an HTML table, and plots."""

from typing import Any

from carving.memory.census import held_bytes
from carving.memory.picture import picture, question_picture
from carving.memory.questions import check_roles
from carving.memory.reliability import Reliability
from carving.notebooks import table
from carving.schemes.words import words_of
from carving.symbols.codec import Role
from carving.validate import show_bits, show_bytes


class Looks(Reliability):
    """Plots and the notebook display of a memory."""

    def plot(self, *path: Role, prior_empty: float = 0.5) -> Any:
        """Return a matplotlib figure of the memory: its cells and its load, or the scores of all values at a path.

        Args:
            *path: The roles of a path whose scores are shown. Without any, the memory itself is shown.
            prior_empty: Prior probability that the path is empty.

        Raises:
            MissingExtra: If matplotlib (the extra `plots`) is not installed.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> figure = memory.plot("dog", "says")
        >>> figure.axes[0].get_title(loc="left")
        'dog / says'
        """
        return question_picture(self, check_roles(path), prior_empty) if path else picture(self)

    def _repr_html_(self) -> str:
        held, named = self._state, self.predicted_accuracy()
        rows = [
            ("holds", f"{self.pairs:,} pairs of {len(self.vocabulary):,} different values"),
            ("scheme", words_of(self.scheme)),
            ("size", show_bytes(held_bytes(self))),
        ]
        if held.cells is not None:
            rows.append(("quantized", f"{show_bits(held.cells.bits)} per cell"))
        if named is not None:
            rows.append(("predicted accuracy", f"{named:.2%}"))
        return table(type(self).__name__, rows)

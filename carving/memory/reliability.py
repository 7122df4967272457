"""Accuracy of a memory, measured on pairs or predicted from its load; and its display."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from carving.distributed.ranks import Group
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import OnProgress
from carving.memory.decode_pairs import Moment
from carving.memory.fullness import falls_short, foreseen
from carving.memory.pairs import batches
from carving.memory.questions import Questions, check_roles
from carving.memory.verification import Verification, verify
from carving.symbols.codec import Label, Role
from carving.validate import check_integer


class Reliability(Questions):
    """Measured and predicted accuracy of a memory, and its display."""

    def verify(
        self,
        pairs: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        joint: bool = False,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """Query the memory for pairs, and report which it answers correctly.

        Args:
            pairs: A document, (path, value) pairs or a DataFrame, as for `Memory.store`; possibly a part of what was
                stored. A pair is correct if its value is among those that the memory finds under its path.
            key: The column of a DataFrame with the row names.
            joint: Decode all pairs jointly instead of querying path by path.
            group: A process group of torch.distributed: all ranks pass the same pairs and share the work.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            The result: true if all answers are correct.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.correct, outcome.accuracy, [(wrong.path, wrong.answer.value) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'woof')])
        """
        return verify(Moment(self._state), chain.from_iterable(batches(pairs, key)), joint, on_progress, group)

    def predicted_accuracy(self, pairs: int = 0) -> float | None:
        """Return the predicted accuracy of recalling stored values, None if there is no prediction for the scheme.

        It is that of single queries, or of joint decoding if the memory was planned for it (`target.joint`), and
        assumes that all values are about equally frequent. An empty memory that was planned expects the vocabulary that
        it was planned for.

        Args:
            pairs: Predict for this many additional pairs.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted_accuracy() is None, [memory.predicted_accuracy(pairs=n) > 0.95 for n in (2, 1000)]
        (True, [True, False])
        """
        return foreseen(self._state, check_integer("pairs", pairs, 0))

    @property
    def is_overfull(self) -> bool:
        """Whether the predicted accuracy is below the target accuracy in `target`, or below 0.9 without one."""
        return falls_short(self._state)

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
        from carving.explore.display import plot_memory, plot_scores

        return plot_scores(self, check_roles(path), prior_empty) if path else plot_memory(self)

    def _repr_html_(self) -> str:
        from carving.explore.display import memory_html

        return memory_html(self)

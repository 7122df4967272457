"""How far a memory can be relied on: asked again for what it should hold, or predicted from how full it is."""

from collections.abc import Iterable
from itertools import chain

from carving.checks import check_integer
from carving.distributed.ranks import Group
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import OnProgress
from carving.memory.fullness import falls_short, foreseen
from carving.memory.holdings import Moment
from carving.memory.pairs import batches
from carving.memory.questions import Questions
from carving.memory.verification import Verification, verify
from carving.symbols import Label


class Reliability(Questions):
    """What a memory can tell of its own answers."""

    def verify(
        self,
        pairs: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        joint: bool = False,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """How many of the pairs it answers rightly, and which wrongly; with `joint`, all of them asked together.

        Of a group, all ranks give the same pairs, and ask for them together.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.right, outcome.share, [(wrong.path, wrong.leaf, wrong.answer.leaf) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'meow', 'woof')])
        """
        return verify(Moment(self._state), chain.from_iterable(batches(pairs, key)), joint, on_progress, group)

    def predicted(self, pairs: int = 0) -> float | None:
        """The share of leaves that it is predicted to name, once so many pairs more are stored; None if none is.

        Predictions are for leaves of which each is used about as often, asked for one at a time. An empty memory that
        was planned expects as many leaves as it was planned for.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted() is None, memory.predicted(pairs=2) > 0.99, memory.predicted(pairs=1000) < 0.9
        (True, True, True)
        """
        return foreseen(self._state, check_integer("pairs", pairs, 0))

    @property
    def overfull(self) -> bool:
        """Whether it is predicted to name fewer leaves than it was planned for (`goal`), or else than 0.9."""
        return falls_short(self._state)

"""How full commands make a memory: told before and after, and refused below what it was planned for."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Self

from carving.cli.output import errors, write_line
from carving.errors import BadValue, Overfull
from carving.memory import Memory
from carving.memory.extent import Extent
from carving.memory.fullness import predicted
from carving.prediction.goal import USUAL, Goal
from carving.scheme import Scheme


@contextmanager
def told_below() -> Iterator[None]:
    """Where a memory may get too full without a warning, because the command says so itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        yield


@dataclass(frozen=True)
class Fullness:
    """What a memory was, and is now, predicted to name of its leaves, and what it was planned for."""

    before: float | None
    after: float | None
    goal: Goal | None
    short: bool  # whether that is too little

    @classmethod
    def of(cls, before: float | None, memory: Memory) -> Self:
        """That of a memory after a change."""
        return cls(before, memory.predicted(), memory.goal, memory.overfull)

    @classmethod
    def at(cls, scheme: Scheme, goal: Goal | None, was: Extent, now: Extent) -> Self:
        """That of a memory of which only the extent is known, before and after a change."""
        joint = goal is not None and goal.joint
        before, after = (predicted(scheme, each.pairs, each.leaves, joint) for each in (was, now))
        within = goal is not None and now.pairs <= goal.pairs and now.leaves <= goal.vocabulary
        return cls(before, after, goal, not within and after is not None and (goal or Goal(USUAL)).missed_by(after))

    def check(self, file: FilePath, force: bool) -> None:
        """Refuse what falls short of what was planned, and warn of what does so of what is usual."""
        if not self.short:
            return
        named = f"it is predicted to name {self._change()} of its leaves"
        if self.goal is not None and not force:
            raise BadValue(
                f"{file} would be too full: {named}, and was planned for {_share(self.goal.accuracy)}; nothing was "
                "written: `carving store NEW FILES` with all of its files makes a memory of the size that they need, "
                "--force stores them here"
            )
        planned = _share(self.goal.accuracy if self.goal else USUAL)
        errors.print(
            f"Warning: {file} is too full: {self._change()}, less than {planned}", markup=False, soft_wrap=True
        )

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return dict(predicted=self.after, predicted_before=self.before, planned=self.goal and self.goal.accuracy)

    def write(self) -> None:
        """For people."""
        if self.after is not None:
            planned = f"; it was planned for {_share(self.goal.accuracy)}" if self.goal else ""
            write_line(f"it is predicted to name {self._change()} of its leaves{planned}")

    def _change(self) -> str:
        now = "nothing" if self.after is None else _share(self.after)
        return now if self.before is None else f"{_share(self.before)} -> {now}"


def _share(share: float) -> str:
    """A share with the digits that count: 99.9 % has as many errors again as 99.95 %."""
    return f"{share:.2%}"

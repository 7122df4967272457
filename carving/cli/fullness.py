"""How full commands make a memory: told before and after, and refused below what it was planned for."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Self

from carving.cli.output import errors, write_line
from carving.errors import BadValue
from carving.memory import Memory
from carving.memory.extent import Extent
from carving.memory.fullness import named
from carving.prediction.goal import USUAL, Goal
from carving.scheme import Scheme


@dataclass(frozen=True)
class Fullness:
    """What a memory was, and is now, predicted to name of its leaves, and what it was planned for."""

    before: float | None
    after: float | None
    goal: Goal | None
    short: bool  # whether that is too little
    pairs: int = 0
    keeps_paths: bool = False
    leaves: int = 0

    @classmethod
    def of(cls, before: float | None, memory: Memory) -> Self:
        """That of a memory after a change."""
        counts = memory.pairs, memory.keeps_paths, len(memory.vocabulary)
        return cls(before, memory.predicted(), memory.goal, memory.overfull, *counts)

    @classmethod
    def at(cls, scheme: Scheme, goal: Goal | None, was: Extent, now: Extent, keeps_paths: bool) -> Self:
        """That of a memory of which only the extent is known, before and after a change."""
        joint = goal is not None and goal.joint
        before, after = (named(scheme, each.loads, each.leaves, joint) for each in (was, now))
        within = goal is not None and now.load <= goal.pairs and now.leaves <= goal.vocabulary
        short = not within and after is not None and (goal or Goal(USUAL)).missed_by(after)
        return cls(before, after, goal, short, now.pairs, keeps_paths, now.leaves)

    def check(self, file: FilePath, force: bool, merged: Sequence[FilePath] = ()) -> None:
        """Refuse what falls short of what was planned, and warn of what does so of what is usual.

        The way out is to grow the file; or where it would have been merged of others, to make larger ones of these.
        """
        if not self.short:
            return
        if self.goal is not None and not force:
            way_out = self._larger(self.goal, merged) if merged else self._way_out(file)
            raise BadValue(
                f"{file} would be too full: it is predicted to name {self._change()} of its leaves, and was planned "
                f"for {_share(self.goal.accuracy)}; nothing was written: {way_out}; --force stores them here"
            )
        planned = _share(self.goal.accuracy if self.goal else USUAL)
        errors.print(
            f"Warning: {file} is too full: {self._change()}, less than {planned}", markup=False, soft_wrap=True
        )

    def _way_out(self, file: FilePath) -> str:
        if not file.exists():
            return "leave out --like, and it gets the size that these files need"
        grow = ["carving", "grow", str(file)]
        if not self.keeps_paths:
            new = "`carving store NEW FILES` with all files makes a memory of the size that they need"
            return f"`{shlex.join(grow)} FILES --pairs {self.pairs}` with all files that it holds makes room, {new}"
        return f"`{shlex.join(grow)} --pairs {self.pairs}` makes room for them"

    def _larger(self, goal: Goal, merged: Sequence[FilePath]) -> str:
        if self.keeps_paths:  # those of another size can be merged, too
            return f"`{shlex.join(['carving', 'grow', str(merged[0])])} --pairs {self.pairs}` makes room for all"
        sizes = f"--pairs {self.pairs} --vocabulary {max(2, self.leaves)} --accuracy {goal.accuracy:.4g}"
        plan = f"carving plan {sizes}{' --joint' if goal.joint else ''} --out EMPTY"
        return (
            f"`{plan}` makes a memory with room for all, `carving store NEW FILES --like EMPTY` one like it of the "
            "files of each, and those can be merged"
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

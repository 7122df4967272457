"""How full commands make a memory: told before and after, and refused below what it was planned for."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Self

from carving.cli.extent import Extent
from carving.cli.output import errors, write_line
from carving.errors import BadValue
from carving.memory import Memory
from carving.memory.capacity import accuracy_of_loads
from carving.planner.requirements import EXPECTED_ACCURACY, Target
from carving.schemes.base import Scheme


@dataclass(frozen=True)
class Fullness:
    """What a memory was, and is now, predicted to name of its values, and what it was planned for."""

    before: float | None
    after: float | None
    target: Target | None
    short: bool  # whether that is too little
    pairs: int = 0
    keeps_paths: bool = False
    values: int = 0

    @classmethod
    def of(cls, before: float | None, memory: Memory) -> Self:
        """Return the load of a memory after a change."""
        return cls(
            before=before,
            after=memory.predicted_accuracy(),
            target=memory.target,
            short=memory.is_overfull,
            pairs=memory.pairs,
            keeps_paths=memory.keeps_paths,
            values=len(memory.vocabulary),
        )

    @classmethod
    def at(cls, scheme: Scheme, target: Target | None, was: Extent, now: Extent, keeps_paths: bool) -> Self:
        """Return the load of a memory of which only the extent is known, before (`was`) and after (`now`) a change."""
        joint = target is not None and target.joint
        before, after = (accuracy_of_loads(scheme, each.loads, each.values, joint) for each in (was, now))
        within = target is not None and now.load <= target.pairs and now.values <= target.vocabulary
        short = not within and after is not None and (target or Target(EXPECTED_ACCURACY)).missed_by(after)
        return cls(
            before=before,
            after=after,
            target=target,
            short=short,
            pairs=now.pairs,
            keeps_paths=keeps_paths,
            values=now.values,
        )

    def check(self, file: FilePath, force: bool, merged: Sequence[FilePath] = ()) -> None:
        """Raise `BadValue` if the memory misses its target accuracy; warn if it has no target and misses the usual one.

        The error suggests to grow the file, or, after a merge, to store the files of its parts in larger memories.
        """
        if not self.short:
            return
        if self.target is not None and not force:
            hint = self._larger(self.target, merged) if merged else self._hint(file)
            raise BadValue(
                f"{file} would be over capacity: predicted accuracy {self._change()}, target "
                f"{_share(self.target.accuracy)}. Nothing was written. {hint} --force writes it all the same."
            )
        target = _share(self.target.accuracy if self.target else EXPECTED_ACCURACY)
        errors.print(
            f"Warning: {file} is over capacity: predicted accuracy {self._change()}, below {target}.",
            markup=False,
            soft_wrap=True,
        )

    def _hint(self, file: FilePath) -> str:
        if not file.exists():
            return "Omit --like, and the memory gets the size that these files need."
        grow = ["carving", "grow", str(file)]
        if not self.keeps_paths:
            return (
                f"Run `{shlex.join(grow)} FILES --pairs {self.pairs}` with all files stored in it to get a larger "
                "memory, or `carving store NEW FILES` with all files to create a memory of the right size."
            )
        return f"Run `{shlex.join(grow)} --pairs {self.pairs}` to get a larger memory."

    def _larger(self, target: Target, merged: Sequence[FilePath]) -> str:
        if self.keeps_paths:  # those of another size can be merged, too
            return (
                f"Run `{shlex.join(['carving', 'grow', str(merged[0])])} --pairs {self.pairs}` to get a larger memory."
            )
        sizes = f"--pairs {self.pairs} --vocabulary {max(2, self.values)} --accuracy {target.accuracy:.4g}"
        plan = f"carving plan {sizes}{' --joint' if target.joint else ''} --out EMPTY"
        return (
            f"Run `{plan}` to create a memory large enough, and `carving store NEW FILES --like EMPTY` with the "
            "files of each memory; then merge the new ones."
        )

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return dict(
            predicted_accuracy=self.after,
            predicted_accuracy_before=self.before,
            target_accuracy=self.target and self.target.accuracy,
        )

    def write(self) -> None:
        """For people."""
        if self.after is not None:
            target = f" (target {_share(self.target.accuracy)})" if self.target else ""
            write_line(f"Predicted accuracy: {self._change()}{target}.")

    def _change(self) -> str:
        now = "unknown" if self.after is None else _share(self.after)
        return now if self.before is None else f"{_share(self.before)} -> {now}"


def _share(share: float) -> str:
    """A share with the digits that count: 99.9 % has as many errors again as 99.95 %."""
    return f"{share:.2%}"

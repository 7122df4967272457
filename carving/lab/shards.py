"""Parts of experiments for job arrays: every job runs its share of the trials into files of its own.

Which job runs a trial depends on the trial's seed alone. The files lie beside those of whole runs, and nobody but
their own job writes them: whoever reports takes the rows of all of them into account, jobs that still run included.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from carving.errors import BadValue
from carving.lab.experiment import Trial
from carving.lab.rows import Row, rows_of


class Shard(NamedTuple):
    """Part of the trials of an experiment, for job arrays; counted from 1.

    >>> Shard.parse("3/16")
    Shard(number=3, of=16)
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard of a text such as "3/16"."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise BadValue(f"shard must be NUMBER/TOTAL, counted from 1, such as 3/16, got {text!r}.")
        return cls(int(found[1]), int(found[2]))

    def has(self, trial: Trial, experiment: str) -> bool:
        """Whether a trial belongs to this part."""
        return trial.seed(experiment) % self.of == self.number - 1

    def file(self, whole: Path) -> Path:
        """Where this part's rows lie, beside the file of a whole run."""
        return whole.with_name(f"{whole.stem}.shard-{self.number}-of-{self.of}.jsonl")


def shard_files(whole: Path) -> list[Path]:
    """The files of all parts beside that of a whole run."""
    return sorted(whole.parent.glob(f"{whole.stem}.shard-*-of-*.jsonl"))


def finished_rows(files: list[Path]) -> Iterator[Row]:
    """The rows of files that others may be writing: a last line that is not finished is left alone."""
    for file in files:
        if file.exists():
            data = file.read_bytes()
            yield from rows_of(io.BytesIO(data[: data.rfind(b"\n") + 1]), file)

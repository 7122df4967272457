"""`carving reproduce`: the tables and figures of the paper."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from carving.cli.options import Json, Runs, examples
from carving.cli.output import errors, write_json, write_line
from carving.errors import BadValue
from carving.storage.locks import check_folder

REPRODUCE_EPILOG = examples(
    "carving reproduce --list",
    "carving reproduce capacity-4096",
    "carving reproduce --all --scale smoke --out results/smoke",
    "carving reproduce capacity-4096 --scale paper --shard 3/16",
)
PLURALS = {"agrees": "agree", "differs": "differ"}


def reproduce(
    runs: Runs,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]", help="Experiments to run; --list prints their names.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce tables and figures of the paper.

    The report compares the results with the published numbers.
    """
    from carving import lab  # draws pictures

    if listing:
        for name in lab.NAMES:
            write_line(f"{name:26}{lab.load(name).title}")
        return
    chosen = list(lab.NAMES) if every else names
    if not chosen:
        raise BadValue(f"No experiment given. Name one, or pass --all. Experiments: {', '.join(lab.NAMES)}.")
    folder = runs.out or Path("results") / runs.scale
    check_folder(folder)
    how = dict(out=runs.out, workers=runs.workers, fresh=runs.fresh, data=runs.data, shard=runs.shard)
    comparisons = lab.reproduce(chosen, runs.scale, console=errors, **how)  # type: ignore[arg-type]
    if runs.shard is not None:
        write_line(f"Shard {runs.shard} is done. Run the command without --shard to merge all shards into a report.")
    elif as_json:
        write_json(lab.as_json(comparisons))
    else:
        write_line(f"{summary([comparison.verdict for comparison in comparisons])}; see {folder / 'report.md'}")


def summary(verdicts: list[str]) -> str:
    """How many numbers agree with the published ones, and how many do not."""
    if not verdicts:
        return "No reference numbers to compare with"
    kinds = Counter(verdict.partition(":")[0] for verdict in verdicts)
    counts = ", ".join(f"{count} {PLURALS.get(kind, kind)}" for kind, count in kinds.most_common())
    return f"Of {len(verdicts)} reference {'number' if len(verdicts) == 1 else 'numbers'}, {counts}"

"""`carving consolidate`: a memory whose tensor is solved, so that single questions are answered rightly."""

from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, OwnSources, Reading, Work, examples
from carving.cli.output import errors, memory_sentence, write_json, write_line
from carving.cli.ranks import together
from carving.console import bar
from carving.files import check_replaceable
from carving.memory import Memory
from carving.memory.consolidation import Consolidation

CONSOLIDATE_EPILOG = examples(
    "carving consolidate facts.safetensors facts.json",
    "carving consolidate facts.safetensors facts.json --accuracy 0.999 --output small.safetensors",
    "carving consolidate facts.safetensors facts.json --workers 2",
    "carving consolidate facts.safetensors",
)


def consolidate(
    memory: MemoryFile,
    reading: Reading,
    work: Work,
    files: OwnSources = None,
    accuracy: Annotated[float, typer.Option(help="The share of these pairs that is to be named, one at a time.")] = 1.0,
    bits: Annotated[
        int | None, typer.Option(help="So many bits a cell: 1, 2, 3, 4 or 8 make as few different numbers.")
    ] = None,
    output: Annotated[
        FilePath | None, typer.Option("--output", "-o", metavar="OUT", help="Write it there, and leave MEMORY alone.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Solve a memory's tensor, so that it names all pairs of FILES (1 if not all that were wished).

    Without FILES, what lies under the paths that it keeps is decoded together first. What is stored later is noise to
    a consolidated memory, and nothing can be forgotten: keep the files.
    """
    target = output or memory
    with together(work) as ranks, locked(target, ranks):
        group = ranks if ranks.size > 1 else None
        held = Memory.load(memory, group=group)  # which says what to do with a sealed one
        ranks.agreed(lambda: check_replaceable(target, "memory", None))
        pairs = ranks.agreed(lambda: list(Files.open(files, reading)) if files else None)
        with bar(errors, "consolidating", held.pairs if pairs is None else len(pairs)) as advance:
            outcome = held.consolidate(pairs, accuracy, bits=bits, group=group, on_progress=advance)
        if output is not None or held.consolidated:
            held.save(target, group=group)
    if as_json:
        write_json(consolidation_json(outcome) | dict(consolidated=held.consolidated, file=str(target)))
    else:
        write_line(consolidation_sentence(outcome, held.consolidated))
        write_line(memory_sentence(held))
    raise typer.Exit(0 if outcome else 1)


def consolidation_json(outcome: Consolidation) -> dict[str, object]:
    """How it went, for JSON."""
    return dict(
        asked=outcome.pairs,
        before=outcome.before,
        right=outcome.after,
        share=outcome.share,
        evaluations=outcome.evaluations,
        others=outcome.others,
    )


def consolidation_sentence(outcome: Consolidation, solved: bool) -> str:
    """The same for people."""
    others = f"; {outcome.others:,} other pairs that it holds are noise" if outcome.others else ""
    how = f"in {outcome.evaluations} passes" if outcome.evaluations else "as it is"
    kept = "" if solved else "; its tensor stays the sum of its pairs"
    return (
        f"of {outcome.pairs:,} pairs, {outcome.after:,} are answered rightly one at a time ({outcome.share:.2%}), "
        f"{outcome.before:,} before, {how}{others}{kept}"
    )

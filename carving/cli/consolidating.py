"""`carving consolidate`: a memory whose tensor is solved, so that single questions are answered rightly."""

from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, OwnSources, Reading, Work, examples
from carving.cli.output import count_text, errors, memory_sentence, write_json, write_line
from carving.cli.ranks import together
from carving.console import bar
from carving.memory import Memory
from carving.memory.consolidation import Consolidation
from carving.storage.tensorfile import check_replaceable

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
    accuracy: Annotated[float, typer.Option(help="Target accuracy of single queries on these pairs.")] = 1.0,
    bits: Annotated[int | None, typer.Option(help="Quantize to 1, 2, 3, 4 or 8 bits per cell.")] = None,
    output: Annotated[
        FilePath | None,
        typer.Option("--output", "-o", metavar="OUT", help="Write to this file and leave MEMORY unchanged."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Solve for a tensor with which single queries are right.

    The queries are the pairs of FILES; without FILES, the pairs under the paths that the memory keeps are decoded
    jointly first. Exit status 1 if the target accuracy is not reached. Pairs stored later are noise to a consolidated
    memory, and none can be removed: keep the files.
    """
    target = output or memory
    with together(work) as ranks, locked(target, ranks):
        group = ranks if ranks.size > 1 else None
        held = Memory.load(memory, group=group)  # which says what to do with a quantized one
        ranks.agreed(lambda: check_replaceable(target, "memory", None))
        pairs = ranks.agreed(lambda: list(Files.open(files, reading)) if files else None)
        with bar(errors, "consolidating", held.pairs if pairs is None else len(pairs)) as advance:
            outcome = held.consolidate(pairs, accuracy, bits=bits, on_progress=advance)
        if output is not None or held.is_consolidated:
            held.save(target)
    if as_json:
        write_json(consolidation_json(outcome) | dict(consolidated=held.is_consolidated, file=str(target)))
    else:
        write_line(consolidation_sentence(outcome, held.is_consolidated))
        write_line(memory_sentence(held))
    raise typer.Exit(0 if outcome else 1)


def consolidation_json(outcome: Consolidation) -> dict[str, object]:
    """How it went, for JSON."""
    return dict(
        total=outcome.pairs,
        before=outcome.before,
        correct=outcome.after,
        share=outcome.share,
        evaluations=outcome.evaluations,
        others=outcome.others,
    )


def consolidation_sentence(outcome: Consolidation, solved: bool) -> str:
    """Return the outcome of `carving consolidate` as a sentence."""
    others = f" {outcome.others:,} other stored pairs are noise." if outcome.others else ""
    kept = "" if solved else " The tensor is unchanged: still the sum of its pairs."
    return (
        f"Correct in single queries: {outcome.after:,} of {count_text(outcome.pairs, 'pair')} ({outcome.share:.2%}), "
        f"{outcome.before:,} before; passes: {outcome.evaluations}.{others}{kept}"
    )

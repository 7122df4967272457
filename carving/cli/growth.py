"""`carving grow`: a memory of another size with the same pairs."""

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.fullness import Fullness
from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, KeepPaths, MemoryFile, OwnSources, Reading, examples
from carving.cli.output import count_text, errors, memory_sentence, write_json, write_line
from carving.console import bar
from carving.memory import Memory
from carving.memory.capacity import collected
from carving.memory.evaluate import SURE, DecodedPairs
from carving.storage.memoryfile import identity
from carving.storage.tensorfile import check_replaceable

GROW_EPILOG = examples(
    "carving grow facts.safetensors",
    "carving grow facts.safetensors --pairs 100000 --accuracy 0.999",
    "carving grow graph.safetensors wn18rr_train.tsv.xz --keep-paths",
    "carving grow facts.safetensors --pairs 1000 --output small.safetensors",
)


@dataclass(frozen=True)
class Size:
    """What the memory is to be planned for."""

    pairs: Annotated[
        int | None, typer.Option(min=1, help="Total number of pairs to plan for. Default: twice as many as now.")
    ] = None
    accuracy: Annotated[
        float | None,
        typer.Option(help='Target accuracy, counting "nothing stored" as an answer. Default: as it was planned.'),
    ] = None


def grow(
    memory: MemoryFile,
    reading: Reading,
    size: Size,
    files: OwnSources = None,
    output: Annotated[
        FilePath | None,
        typer.Option("--output", "-o", metavar="OUT", help="Write to this file and leave MEMORY unchanged."),
    ] = None,
    keep_paths: KeepPaths = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Continue even if decoding is uncertain: pairs that are not found are lost. Overwrite OUT.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Move the pairs of a memory to a larger or smaller one.

    All pairs are decoded, and stored in a memory that is planned for more (or fewer) pairs.
    """
    target = output or memory
    with locked(target):
        held = Memory.load(memory)  # which says what to do with a quantized one
        check_replaceable(target, "memory", force)
        paths = [path for path, _ in Files.open(files, reading)] if files else None
        with bar(errors, "decoding and storing", None) as advance, collected():
            bigger, found = held.grow(
                size.pairs, size.accuracy, paths=paths, keep_paths=keep_paths or None, force=force, on_progress=advance
            )
        bigger.save(target, force=force)
    full = Fullness.of(held.predicted_accuracy(), bigger)
    if as_json:
        facts = dict(pairs=bigger.pairs, values=len(bigger.vocabulary), scheme=identity(bigger.scheme))
        write_json(holdings_json(found) | facts | dict(file=str(target)) | full.facts())
        return
    write_holdings(found)
    write_line(f"Stored {count_text(len(found.pairs), 'pair')} in {target}.")
    write_line(memory_sentence(bigger))
    full.write()


def holdings_json(found: DecodedPairs | None) -> dict[str, object]:
    """What a memory holds, if it was asked, for JSON."""
    if found is None:
        return {}
    return dict(
        requested=found.requested,
        confident=found.confident,
        missing=found.missing,
        converged=found.converged,
        rounds=found.rounds,
    )


def write_holdings(found: DecodedPairs | None) -> None:
    """Print how many answers are certain, which is not how many are correct."""
    if found is None:
        return
    write_line(
        f"Queried {count_text(found.requested, 'pair')}: {found.confident:,} answers with probability {SURE} or higher "
        f"({found.confident_share:.2%}), {found.missing:,} without an answer. `carving verify` with FILES counts "
        "correct ones."
    )
    if found.converged is False:
        write_line(
            "Joint decoding did not converge: the memory is over capacity, or holds many pairs under other paths."
        )

"""`carving grow`: a memory of another size with the same pairs."""

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.fullness import Fullness
from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, KeepPaths, MemoryFile, OwnSources, Reading, examples
from carving.cli.output import errors, memory_sentence, write_json, write_line
from carving.console import bar
from carving.files import check_replaceable, identity
from carving.memory import Memory
from carving.memory.fullness import collected
from carving.memory.holdings import SURE, Holdings

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
        int | None, typer.Option(min=1, help="How many pairs it is to hold in all; by default twice as many as now.")
    ] = None
    accuracy: Annotated[
        float | None, typer.Option(help="The share of right answers, nothing being one; by default as it was planned.")
    ] = None


def grow(
    memory: MemoryFile,
    reading: Reading,
    size: Size,
    files: OwnSources = None,
    output: Annotated[
        FilePath | None, typer.Option("--output", "-o", metavar="OUT", help="Write it there, and leave MEMORY alone.")
    ] = None,
    keep_paths: KeepPaths = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Go on where not all is decoded surely: what was not found is lost. Replace OUT, whatever it is.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Decode all that a memory holds, and store it in one of the size for more (or fewer) pairs."""
    target = output or memory
    with locked(target):
        held = Memory.load(memory)  # which says what to do with a sealed one
        check_replaceable(target, "memory", force)
        paths = [path for path, _ in Files.open(files, reading)] if files else None
        with bar(errors, "decoding and storing", None) as advance, collected():
            bigger, found = held.grow(
                size.pairs, size.accuracy, paths=paths, keep_paths=keep_paths or None, force=force, on_progress=advance
            )
        bigger.save(target, force=force)
    full = Fullness.of(held.predicted(), bigger)
    if as_json:
        facts = dict(pairs=bigger.pairs, leaves=len(bigger.vocabulary), scheme=identity(bigger.scheme))
        write_json(holdings_json(found) | facts | dict(file=str(target)) | full.facts())
        return
    write_holdings(found)
    write_line(f"stored {len(found.pairs):,} pairs in {target}")
    write_line(memory_sentence(bigger))
    full.write()


def holdings_json(found: Holdings | None) -> dict[str, object]:
    """What a memory holds, if it was asked, for JSON."""
    if found is None:
        return {}
    return dict(
        asked=found.asked, sure=found.sure, nothing=found.nothing, converged=found.converged, rounds=found.rounds
    )


def write_holdings(found: Holdings | None) -> None:
    """The same for people: how sure it is, which is not whether it is right."""
    if found is None:
        return
    write_line(
        f"asked for all {found.asked:,} pairs under its paths: {found.sure:,} answers are sure ({found.share:.2%}), "
        f"{found.nothing:,} found nothing; sure is a probability of at least {SURE}, what is right only files can tell"
    )
    if found.converged is False:
        write_line("asked together, they did not come to rest: the memory is too full, or holds much under other paths")

"""`carving export`: what a memory holds, written to a file of any format that can be read."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer

from carving import formats
from carving.cli.input import Files, reading_options
from carving.cli.options import Json, MemoryFile, OwnSources, Reading, examples
from carving.cli.output import count_text, errors, write_json, write_line
from carving.cli.quantizing import Labels, loaded
from carving.console import bar
from carving.formats.documents import Pair
from carving.formats.registry import choose_format
from carving.memory import Memory
from carving.memory.pairs import OnProgress
from carving.memory.quantized import QuantizedMemory
from carving.storage.locks import check_target
from carving.symbols.codec import Path, canonical_path

EXPORT_EPILOG = examples(
    "carving export facts.safetensors facts.json -o copy.json",
    "carving export graph.safetensors wn18rr_train.tsv.xz -o graph.tsv.gz",
    "carving export people.safetensors people.csv --key name -o copy.csv",
    "carving export keeps-paths.safetensors -o everything.json",
)


def export(
    memory: MemoryFile,
    reading: Reading,
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="File to write; - is standard output.")],
    files: OwnSources = None,
    to: Annotated[str | None, typer.Option(help="Format of OUT. Default: from the file name.")] = None,
    vocabulary: Labels = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT even if it is a memory, or read-only.")] = False,
    as_json: Json = False,
) -> None:
    """Write the pairs of a memory to a file.

    The pairs are decoded under the paths of FILES, or under the paths that the memory keeps.
    """
    if output != "-":
        check_target(output)
    format = choose_format(output, to, "--to")
    held = loaded(memory, vocabulary, reading)
    paths = [path for path, _ in Files.open(files, reading)] if files else None
    asked = len(held) if paths is None else len(paths)
    options = {name: value for name, value in reading_options(reading).items() if name in format.options}
    try:
        written = formats.write(answers(held, paths), output, format.name, force=force, **options)
    except NothingFound:
        errors.print(
            f"Nothing is stored under these {count_text(asked, 'path')}; {output} was not written.", markup=False
        )
        raise typer.Exit(1) from None
    if output == "-":
        return
    if as_json:
        write_json(dict(asked=asked, written=written, file=output))
    else:
        queried = count_text(asked, "path") if paths is None else f"{asked:,} requested"
        write_line(f"Wrote {count_text(written, 'pair')} to {output} ({queried}).")


def answers(memory: Memory | QuantizedMemory, paths: list[Path] | None) -> Iterator[Pair]:
    """What a memory holds; asked for only once it is known that OUT's format can be written."""
    with bar(errors, "querying", None if paths is None else len(set(paths))) as advance:
        if paths is None:
            pairs = memory.decode_pairs(on_progress=advance).pairs
        else:
            pairs = held_pairs(memory, paths, advance)
    if not pairs:
        raise NothingFound
    yield from pairs


def held_pairs(memory: Memory, paths: list[Path], advance: OnProgress | None = None) -> list[Pair]:
    """Return the pairs that a memory holds under paths; one that is listed several times is queried as a set."""
    names = [canonical_path(path) for path in paths]
    times, first = Counter(names), dict(zip(names, paths, strict=True))
    single, several = ([first[name] for name, n in times.items() if (n > 1) == many] for many in (False, True))
    ones = iter(memory.recall_many(single, on_progress=advance) if single else ())
    sets = iter(memory.recall_sets(several, on_progress=advance) if several else ())
    answers = ((first[name], [next(ones)] if n == 1 else next(sets)) for name, n in times.items())
    return [(path, answer.value) for path, given in answers for answer in given if answer]


class NothingFound(Exception):
    """A memory holds nothing of what is to be exported."""

"""`carving seal` and `unseal`: a memory in a few bits a cell, and back again; and what sealed files are."""

import math
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving import sealedfiles
from carving.checks import show_bits, show_bytes
from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, OwnSources, Reading, chosen_bits, examples
from carving.cli.output import errors, holding_sentence, memory_sentence, write_json, write_line
from carving.console import bar
from carving.files import check_replaceable, identity
from carving.memory import Memory
from carving.memory.sealed import SealedMemory, load_memory
from carving.sealedfiles import Sealed
from carving.symbols import Leaf, canonical

SEAL_EPILOG = examples(
    "carving seal facts.safetensors -o sealed.safetensors",
    "carving seal facts.safetensors -o sealed.safetensors --bits 1 --no-vocabulary",
)
UNSEAL_EPILOG = examples(
    "carving unseal sealed.safetensors facts.json -o facts.safetensors",
    "carving unseal keeps-paths.safetensors -o facts.safetensors",
)

Output = Annotated[FilePath, typer.Option("--output", "-o", metavar="OUT", help="The file to write.")]
Labels = Annotated[
    str | None,
    typer.Option(
        "--vocabulary", metavar="FILE", help="A file of pairs that has the leaves of a memory sealed without them."
    ),
]


def seal(
    memory: MemoryFile,
    output: Output,
    bits: Annotated[
        str | None,
        typer.Option(help="Bits a cell: 1, 2, 3, 4 or 8, or auto.", show_default="2, or those it was consolidated in"),
    ] = None,
    vocabulary: Annotated[
        bool,
        typer.Option("--vocabulary/--no-vocabulary", help="Whether the labels are kept; if not, who asks has them."),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT even if it is no sealed memory.")] = False,
    as_json: Json = False,
) -> None:
    """Write a memory in a few bits a cell, to be asked but not changed; `unseal` makes a memory of it again."""
    check_replaceable(output, "sealed memory", force)
    held = Memory.load(memory)
    with locked(output):
        done = held.seal(None if bits is None else chosen_bits(bits))
        done.save(output, vocabulary=vocabulary, force=force)
    write_sealed(output, sealedfiles.read(output), as_json)


def unseal(
    memory: MemoryFile,
    reading: Reading,
    output: Output,
    files: OwnSources = None,
    vocabulary: Labels = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT even if it is no memory.")] = False,
    as_json: Json = False,
) -> None:
    """Decode all that a sealed memory holds under the paths of FILES, or those that it keeps, and store it again.

    One that was consolidated is all there, and needs no FILES.
    """
    check_replaceable(output, "memory", force)
    held = SealedMemory.load(memory, labels_of(vocabulary, reading))
    paths = [path for path, _ in Files.open(files, reading)] if files else None
    with locked(output):
        with bar(errors, "decoding", held.pairs) as advance:
            back = held.unseal(paths, advance)
        back.save(output, force=force)
    if as_json:
        facts = dict(pairs=back.pairs, leaves=len(back.vocabulary), scheme=identity(back.scheme))
        write_json(facts | dict(file=str(output)))
        return
    if back.consolidated:
        write_line(f"{output} holds the numbers of {memory}, as they were consolidated")
    else:
        same = f"which give the cells of {memory} again"
        write_line(f"decoded all {back.pairs:,} pairs, {same}, and stored them in {output}")
    write_line(memory_sentence(back))


def labels_of(file: str | None, reading: Reading | None = None) -> list[Leaf] | None:
    """The different leaves of a file of pairs, in their order, where one is given."""
    if file is None:
        return None
    pairs = Files.open([file], reading or Reading())
    return list({canonical(leaf): leaf for _, leaf in pairs}.values())


def loaded(file: FilePath, vocabulary: str | None = None, reading: Reading | None = None) -> Memory | SealedMemory:
    """The memory of a file, sealed or not, with the labels that were brought for it."""
    return load_memory(file, labels_of(vocabulary, reading))


def sealed_facts(found: Sealed) -> dict[str, object]:
    """What a sealed memory is, for JSON."""
    sizes, leaves = found.sizes, found.vocabulary
    facts: dict[str, object] = dict(bits=found.cells.bits, cells=found.cells.codes.numel(), pairs=found.pairs)
    facts |= dict(bits_a_pair=sizes.decoding / found.pairs, leaves=None if leaves is None else len(leaves))
    facts["consolidated"] = found.solved is not None
    if leaves is not None:
        facts |= dict(limit=math.log2(len(leaves)), vocabulary_bytes=sizes.vocabulary // 8)
    return facts


def write_sealed(file: FilePath, found: Sealed, as_json: bool) -> None:
    """What a sealed memory's file is."""
    size, sizes, leaves = file.stat().st_size, found.sizes, found.vocabulary
    if as_json:
        write_json(dict(file=str(file), bytes=size, scheme=identity(found.scheme)) | sealed_facts(found))
        return
    count = 0 if leaves is None else len(leaves)
    write_line(holding_sentence(found.scheme, found.pairs, count) if leaves else plain_sentence(found))
    rest = sizes.decoding - sizes.cells
    write_line(
        f"sealed: {show_bits(found.cells.bits)} a cell, {sizes.decoding / found.pairs:.2f} bits a pair (cells "
        f"{show_bytes(math.ceil(sizes.cells / 8))}, scale and counts {show_bytes(math.ceil(rest / 8))})"
    )
    if found.solved is not None:
        expected = f"it is expected to name {found.solved.level.accuracy:.2%} of what that was done for"
        write_line(f"consolidated: no sum any more, and asked one path at a time; {expected}")
    if leaves is None:
        write_line("its labels were left out: who asks brings them, with --vocabulary FILE")
    else:
        limit = (
            f"log2 of {count:,} leaves is {math.log2(count):.2f} bits a pair" if count > 1 else "one leaf is no news"
        )
        write_line(
            f"{limit}: no memory that answers all can take less; its labels' own text takes "
            f"{show_bytes(sizes.vocabulary // 8)}"
        )
    write_line(f"{show_bytes(size)} on disk")


def plain_sentence(found: Sealed) -> str:
    """A sealed memory of which the labels are not known, in a line."""
    known = identity(found.scheme)
    parameters = ", ".join(f"{key}={value}" for key, value in known.items() if key != "name")
    return f"{known['name']} ({parameters}): {found.scheme.facts.memory_scalars:,} cells hold {found.pairs:,} pairs"

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
from carving.cli.output import count_text, errors, holding_sentence, memory_sentence, write_json, write_line
from carving.console import bar
from carving.files import check_replaceable, identity
from carving.memory import Memory
from carving.memory.sealed import SealedMemory, load_memory
from carving.sealedfiles import Sealed
from carving.symbols import Leaf, canonical

SEAL_EPILOG = examples(
    "carving seal facts.safetensors -o quantized.safetensors",
    "carving seal facts.safetensors -o quantized.safetensors --bits 1 --no-vocabulary",
)
UNSEAL_EPILOG = examples(
    "carving unseal quantized.safetensors facts.json -o facts.safetensors",
    "carving unseal keeps-paths.safetensors -o facts.safetensors",
)

Output = Annotated[FilePath, typer.Option("--output", "-o", metavar="OUT", help="File to write.")]
Labels = Annotated[
    str | None,
    typer.Option(
        "--vocabulary",
        metavar="FILE",
        help="File of pairs with the values of a memory quantized without its vocabulary.",
    ),
]


def seal(
    memory: MemoryFile,
    output: Output,
    bits: Annotated[
        str | None,
        typer.Option(
            help="Bits per cell: 1, 2, 3, 4 or 8, or auto.", show_default="2, or the bits it was consolidated for"
        ),
    ] = None,
    vocabulary: Annotated[
        bool,
        typer.Option(
            "--vocabulary/--no-vocabulary", help="Keep the vocabulary in the file; without it, queries must supply it."
        ),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT even if it is not a quantized memory.")] = False,
    as_json: Json = False,
) -> None:
    """Quantize a memory to a few bits per cell.

    The result can be queried, but not changed; `carving unseal` turns it back into a memory.
    """
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
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT even if it is not a memory.")] = False,
    as_json: Json = False,
) -> None:
    """Turn a quantized memory back into one that can be changed.

    All pairs are decoded and stored again. The paths are those of FILES, or those that the memory keeps. A consolidated
    memory needs neither.
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
        write_line(f"Wrote the consolidated cells of {memory} to {output}.")
    else:
        write_line(
            f"Decoded all {count_text(back.pairs, 'pair')}, which reproduce the cells of {memory}. Stored in {output}."
        )
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
        f"Quantized: {show_bits(found.cells.bits)} per cell, {sizes.decoding / found.pairs:.2f} bits per pair (cells "
        f"{show_bytes(math.ceil(sizes.cells / 8))}, scale and counts {show_bytes(math.ceil(rest / 8))})."
    )
    if found.solved is not None:
        expected = f"expected accuracy {found.solved.level.accuracy:.2%} on the pairs it was consolidated for"
        write_line(f"Consolidated: {expected}.")
    if leaves is None:
        write_line("No vocabulary in the file: pass --vocabulary FILE to query it.")
    else:
        limit = (
            f"Lower bound for an exact memory: log2({count:,}) = {math.log2(count):.2f} bits per pair."
            if count > 1
            else "A vocabulary of one value carries no information."
        )
        write_line(f"{limit} Vocabulary: {show_bytes(sizes.vocabulary // 8)}.")
    write_line(f"File size: {show_bytes(size)}.")


def plain_sentence(found: Sealed) -> str:
    """A sealed memory of which the labels are not known, in a line."""
    known = identity(found.scheme)
    parameters = ", ".join(f"{key}={value}" for key, value in known.items() if key != "name")
    pairs = count_text(found.pairs, "pair")
    return f"{known['name']} ({parameters}): {pairs}, {found.scheme.facts.memory_scalars:,} cells"

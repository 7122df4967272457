"""`carving quantize` and `decode`: a memory in a few bits a cell, and back again; and what quantized files are."""

import math
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, OwnSources, Reading, chosen_bits, examples
from carving.cli.output import count_text, errors, holding_sentence, memory_sentence, write_json, write_line
from carving.console import bar
from carving.memory import Memory
from carving.memory.quantized import QuantizedMemory, load_memory
from carving.storage import memoryfile
from carving.storage.memoryfile import MemoryContents, identity
from carving.storage.tensorfile import check_replaceable
from carving.symbols.codec import Value, canonical
from carving.validate import show_bits, show_bytes

SEAL_EPILOG = examples(
    "carving quantize facts.safetensors -o quantized.safetensors",
    "carving quantize facts.safetensors -o quantized.safetensors --bits 1 --no-vocabulary",
)
UNSEAL_EPILOG = examples(
    "carving decode quantized.safetensors facts.json -o facts.safetensors",
    "carving decode keeps-paths.safetensors -o facts.safetensors",
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


def quantize(
    memory: MemoryFile,
    output: Output,
    bits: Annotated[
        str | None,
        typer.Option(
            help="Bits per cell: 1, 2, 3, 4, 8, or auto (the fewest that keep the target accuracy). Default: 2, or the "
            "bits for which the memory was consolidated.",
            show_default=False,
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

    The result can be queried, but not changed; `carving decode` turns it back into a memory.
    """
    check_replaceable(output, "quantized memory", force)
    held = Memory.load(memory)
    with locked(output):
        done = held.quantize(None if bits is None else chosen_bits(bits))
        done.save(output, vocabulary=vocabulary, force=force)
    write_quantized(output, memoryfile.read(output, memoryfile.QUANTIZED), as_json)


def decode(
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
    held = QuantizedMemory.load(memory, labels_of(vocabulary, reading))
    paths = [path for path, _ in Files.open(files, reading)] if files else None
    with locked(output):
        with bar(errors, "decoding", held.pairs) as advance:
            back = held.to_memory(paths, advance)
        back.save(output, force=force)
    if as_json:
        facts = dict(pairs=back.pairs, values=len(back.vocabulary), scheme=identity(back.scheme))
        write_json(facts | dict(file=str(output)))
        return
    if back.is_consolidated:
        write_line(f"Wrote the consolidated cells of {memory} to {output}.")
    else:
        write_line(
            f"Decoded all {count_text(back.pairs, 'pair')}, which reproduce the cells of {memory}. Stored in {output}."
        )
    write_line(memory_sentence(back))


def labels_of(file: str | None, reading: Reading | None = None) -> list[Value] | None:
    """The different values of a file of pairs, in their order, where one is given."""
    if file is None:
        return None
    pairs = Files.open([file], reading or Reading())
    return list({canonical(value): value for _, value in pairs}.values())


def loaded(file: FilePath, vocabulary: str | None = None, reading: Reading | None = None) -> Memory | QuantizedMemory:
    """The memory of a file, quantized or not, with the labels that were brought for it."""
    return load_memory(file, labels_of(vocabulary, reading))


def quantized_facts(found: MemoryContents) -> dict[str, object]:
    """What a quantized memory is, for JSON."""
    sizes, values = found.sizes, found.vocabulary
    facts: dict[str, object] = dict(bits=found.cells.bits, cells=found.cells.codes.numel(), pairs=found.pairs)
    facts |= dict(bits_a_pair=sizes.decoding / found.pairs, values=None if values is None else len(values))
    facts["consolidated"] = found.solved is not None
    if values is not None:
        facts |= dict(limit=math.log2(len(values)), vocabulary_bytes=sizes.vocabulary // 8)
    return facts


def write_quantized(file: FilePath, found: MemoryContents, as_json: bool) -> None:
    """What a quantized memory's file is."""
    size, sizes, values = file.stat().st_size, found.sizes, found.vocabulary
    if as_json:
        write_json(dict(file=str(file), bytes=size, scheme=identity(found.scheme)) | quantized_facts(found))
        return
    count = 0 if values is None else len(values)
    write_line(holding_sentence(found.scheme, found.pairs, count) if values else plain_sentence(found))
    rest = sizes.decoding - sizes.cells
    write_line(
        f"Quantized: {show_bits(found.cells.bits)} per cell, {sizes.decoding / found.pairs:.2f} bits per pair (cells "
        f"{show_bytes(math.ceil(sizes.cells / 8))}, scale and counts {show_bytes(math.ceil(rest / 8))})."
    )
    if found.solved is not None:
        expected = f"expected accuracy {found.solved.level().accuracy:.2%} on the pairs it was consolidated for"
        write_line(f"Consolidated: {expected}.")
    if values is None:
        write_line("No vocabulary in the file: pass --vocabulary FILE to query it.")
    else:
        limit = (
            f"Lower bound for an exact memory: log2({count:,}) = {math.log2(count):.2f} bits per pair."
            if count > 1
            else "A vocabulary of one value carries no information."
        )
        write_line(f"{limit} Vocabulary: {show_bytes(sizes.vocabulary // 8)}.")
    write_line(f"File size: {show_bytes(size)}.")


def plain_sentence(found: MemoryContents) -> str:
    """A quantized memory of which the labels are not known, in a line."""
    known = identity(found.scheme)
    parameters = ", ".join(f"{key}={value}" for key, value in known.items() if key != "name")
    pairs = count_text(found.pairs, "pair")
    return f"{known['name']} ({parameters}): {pairs}, {found.scheme.facts.memory_scalars:,} cells"

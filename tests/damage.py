"""Damaged and lying files of every kind that Carving writes, and how their readers take them."""

import functools
import json
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from carving import OSC, Memory, QuantizedMemory, Scheme, make
from carving.errors import BadValue
from carving.index import file as index_file
from carving.multilabel import MultiLabelClassifier, OSCHead, Settings
from carving.multilabel.checkpoints import Checkpoint
from carving.multilabel.networks import Network, Scaling
from carving.storage.tensorfile import checksum, read_tensors, replace_tensors

FEATURES = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 4
LABELS = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]] * 4

# What a file may say in the place of anything else.
HOSTILE = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**18, 10**400, 0.5, 1e308, float("nan"), float("inf"), -0.0),
    *("", "x", "\x1b[31mred\x07", "\ud800", "OSC", "CliffordOSC", "TPR", "CGR", "float64", [], {}, [0], {"a": 1}),
    *([[]] * 3, [1e308] * 4, 3_000_000, [["rows", True]], "9" * 5000),
]
STRANGE = ["dtype", "device", "seed", "workspace", "\x1b]0;x\x07"]  # names
TEXTS = ["", "[", "[" * 100_000, "3", "null", "[]", "1e999", "carving labels 2", "\x1b[2J"]


class Kind(NamedTuple):
    """A kind of file: what writes a valid one, of which there are several, and what reads it."""

    make: Callable[[Path, int], object]
    read: Callable[[Path], object]


def memory(scheme: Scheme, depth: int = 1, trained: bool = False, keep_paths: bool = False) -> Kind:
    """Memories of a scheme."""

    def write(file: Path, number: int) -> None:
        own = scheme.like(seed=number)
        values = ["a"] if trained else []
        made = Memory(own, values, own.fillers(values) if trained else None, keep_paths=keep_paths)
        path = ("x", "y")[:depth]
        made.store([(path, "a"), (path, number), (path, {})])
        made.save(file, force=True)

    return Kind(write, Memory.load)


def quantized(scheme: Scheme, bits: int, trained: bool = False, keep_paths: bool = False) -> Kind:
    """Quantized memories of a scheme."""

    def write(file: Path, number: int) -> None:
        own = scheme.like(seed=number)
        values = ["a"] if trained else []
        made = Memory(own, values, own.fillers(values) if trained else None, keep_paths=keep_paths)
        made.store([(("x",), "a"), (("y",), number), (("y",), {})])
        made.quantize(bits).save(file, force=True)

    return Kind(write, QuantizedMemory.load)


def model(head: str, **options: object) -> Kind:
    """Label models with a head."""

    def write(file: Path, number: int) -> None:
        one = Settings(architecture="linear", epochs=1, batch_size=8, learning_rate=0.1)
        MultiLabelClassifier(head, options, one, seed=number).fit(FEATURES, LABELS).save(file, force=True)

    return Kind(write, MultiLabelClassifier.load)


def checkpoint(file: Path, number: int = 1) -> Checkpoint:
    """A small run whose checkpoint lies in the file."""
    with torch.random.fork_rng():
        torch.manual_seed(number)
        modules = torch.nn.ModuleList([Network(Scaling(3), 9, architecture="linear"), OSCHead(4, d=8, p=2, k1=3)])
    optimizer = torch.optim.AdamW(modules.parameters(), lr=0.1)
    return Checkpoint(file, "a run", modules, [optimizer])


def write_checkpoint(file: Path, number: int) -> None:
    """The checkpoint of a run after two epochs."""
    file.unlink(missing_ok=True)
    run = checkpoint(file, number)
    run.modules[0].linear.weight.sum().backward()
    run.optimizers[0].step()
    run._written = -1e9
    run.write_if_due(dict(losses=[1.0], validation=[0.5], epochs=2), None)


def indexed(number: int) -> Memory:
    """A memory whose values have an index."""
    made = Memory(OSC(8, 2, compact=True, seed=number))
    made.store([((i,), f"value {number} {i}") for i in range(30)])
    return made


def write_index(file: Path, number: int) -> None:
    """The index of one of two memories, in a file of its own."""
    memory = indexed(number)
    index_file.write_index(file, memory._reader.codebook.index(), memory.vocabulary, force=True)
    Path(index_file.index_path(file)).replace(file)


def read_index(file: Path) -> None:
    """Take it for the index of either; what `load` would only tell, and go on without, is refused here."""
    place = file.with_name("memory of an index")
    Path(index_file.index_path(place)).write_bytes(file.read_bytes())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        memories = map(indexed_once, range(2))
        if all(index_file.read_index(place, each.scheme, each.vocabulary) is None for each in memories):
            raise BadValue("; ".join(str(each.message) for each in told) or "it is that of other labels")


indexed_once = functools.cache(indexed)

KINDS = {
    "memory": memory(OSC(8, 2), trained=True),
    "memory of TPR": memory(make("TPR", d=4, depth=2), depth=2),
    "memory of CliffordOSC": memory(make("CliffordOSC", d=8)),
    "memory of CGR": memory(make("CGR", d=16), keep_paths=True),
    "quantized memory": quantized(OSC(7, 2), 3, trained=True),
    "quantized memory of FHRR": quantized(make("FHRR", d=16), 1, keep_paths=True),
    "index": Kind(write_index, read_index),
    "model": model("OSC", d=8, p=2, k1=3),
    "model with trained codes": model("HLB", width=8, trainable=True),
    "checkpoint": Kind(write_checkpoint, lambda file: checkpoint(file).resume()),
}


def damaged(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """The bytes with something changed, cut or put in, or the rest from another file."""
    at, much = chance.randrange(len(data)), chance.choice((1, 1, 1, 2, 8, 64))
    piece, start = data[at : at + much], chance.randrange(len(data))
    changed = chance.choice(
        (
            bytes([data[at] ^ 1 << chance.randrange(8)]) + piece[1:],
            bytes([data[at] ^ 0x20]) + piece[1:],
            bytes(len(piece)),
            b" " * len(piece),
            b"\t",
            b"",
            piece + piece,
            chance.randbytes(len(piece)),
            data[start : start + len(piece)],
            other[at : at + much],
        )
    )
    whole = data[:at] + changed + data[at + len(piece) :]
    return chance.choice((whole, whole, whole, data[:at], data[:at] + other[at:], whole + chance.randbytes(much)))


def lied(value: object, chance: random.Random) -> object:
    """A JSON value with one thing in it replaced by a hostile one, or left out, or called by another name."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        fate = chance.random()
        if fate < 0.1:
            return {name: one for name, one in value.items() if name != key}
        if fate < 0.2:
            return value | {chance.choice(STRANGE): chance.choice(HOSTILE)}
        return value | {key: lied(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], lied(value[at], chance), *value[at + 1 :]]
    return chance.choice(HOSTILE)


def lying(file: Path, to: Path, chance: random.Random) -> None:
    """A file that says or holds something else, with a checksum that is right."""
    metadata, tensors = read_tensors(file, "file", lambda _: None)
    for _ in range(chance.choice((1, 1, 2))):
        key = chance.choice(sorted({*metadata, *tensors} - {"checksum"}))
        if key in tensors:
            tensors[key] = odd(tensors[key], chance)
        elif metadata[key].startswith("{") and chance.random() < 0.9:
            metadata[key] = json.dumps(lied(json.loads(metadata[key]), chance))
        else:
            metadata[key] = chance.choice(TEXTS)
    metadata["checksum"] = checksum(tensors, metadata)
    replace_tensors(to, {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)


def odd(tensor: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Other numbers, or the same in another shape or kind."""
    number = chance.choice((float("nan"), float("inf"), 1e308, 1e30, 0, -1))
    filled = tensor.flip(0) if tensor.dim() else tensor + 1
    if tensor.is_floating_point():
        filled = torch.full(tensor.shape, number, dtype=torch.float64).to(tensor.dtype)
    others = (filled, tensor.flatten()[:-1], tensor.unsqueeze(0), tensor.to(torch.int32), tensor.to(torch.float16))
    return chance.choice(others)


def peak() -> int:
    """The most bytes of address space that this process ever had; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmPeak")), 0)


def outcome(reader: Callable[[Path], object], file: Path) -> str:
    """How a reader takes a file: accepted, refused, or (its traceback) something that no one should see."""
    try:
        reader(file)
    except BadValue as error:
        text = str(error)
        return "refused" if text.isprintable() and len(text) < 2000 else f"unreadable: {text[:3000]!r}"
    except Exception:
        return traceback.format_exc()
    return "accepted"

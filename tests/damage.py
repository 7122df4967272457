"""Damaged and lying files of every kind, and how their readers take them: `python damage.py FOLDER TRIES SEED`."""

import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from carving import OSC, Memory, make
from carving.errors import BadValue
from carving.labels import MultiLabelClassifier, OSCHead, Settings
from carving.labels.checkpoints import Checkpoint
from carving.labels.networks import Network, Scaling
from carving.replacing import replace_whole
from carving.tensorfiles import checksum, read_whole

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


def checkpoint(file: Path) -> Checkpoint:
    """A small run whose checkpoint lies in the file."""
    torch.manual_seed(1)
    modules = torch.nn.ModuleList([Network(Scaling(3), 9, trunk="linear"), OSCHead(4, d=8, p=2, k1=3)])
    optimizer = torch.optim.AdamW(modules.parameters(), lr=0.1)
    return Checkpoint(file, "a run", modules, [optimizer])


def samples(folder: Path) -> dict[Path, Callable[[Path], object]]:
    """A file of each kind, and who reads it."""
    names = ("memory", "tpr", "clifford", "cgr")
    schemes = (OSC(8, 2), make("TPR", d=4, depth=2), make("CliffordOSC", d=8), make("CGR", d=16))
    for name, scheme in zip(names, schemes, strict=True):
        memory = (
            Memory(scheme, ["a"], scheme.fillers(["a"]))
            if name == "memory"
            else Memory(scheme, keep_paths=name == "cgr")
        )
        path = ("x", "y") if name == "tpr" else ("x",)
        memory.store([(path, "a"), (path, 1), (path, {})])
        memory.save(folder / name)
    one = Settings(trunk="linear", epochs=1, batch=8, rate=0.1)
    options = dict(d=8, p=2, k1=3)
    MultiLabelClassifier(settings=one, head_options=options).fit(FEATURES, LABELS).save(folder / "model")
    trained = MultiLabelClassifier("HLB", dict(width=8, trainable=True), one).fit(FEATURES, LABELS)
    trained.save(folder / "trained")
    run = checkpoint(folder / "checkpoint")
    run.modules[0].linear.weight.sum().backward()
    run.optimizers[0].step()
    run._written = -1e9
    run.write_if_due(dict(losses=[1.0], validation=[0.5], epochs=2), None)
    readers = dict.fromkeys(names, Memory.load) | dict.fromkeys(("model", "trained"), MultiLabelClassifier.load)
    readers["checkpoint"] = lambda file: checkpoint(file).resume()
    return {folder / name: reader for name, reader in readers.items()}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with something changed, cut or put in."""
    at, much = chance.randrange(len(data)), chance.choice((1, 1, 1, 2, 8, 64))
    piece = data[at : at + much]
    other = chance.choice(
        (
            bytes([data[at] ^ 1 << chance.randrange(8)]) + piece[1:],
            bytes([data[at] ^ 0x20]) + piece[1:],
            bytes(len(piece)),
            b" " * len(piece),
            b"\t",
            b"",
            piece + piece,
            chance.randbytes(len(piece)),
            data[(start := chance.randrange(len(data))) : start + len(piece)],
        )
    )
    whole = data[:at] + other + data[at + len(piece) :]
    return chance.choice((whole, whole, whole, data[:at], whole + chance.randbytes(much)))


def lied(value: object, chance: random.Random) -> object:
    """A JSON value with one thing in it replaced by a hostile one, or left out, or called by another name."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        fate = chance.random()
        if fate < 0.1:
            return {name: one for name, one in value.items() if name != key}
        if fate < 0.2:
            return value | {
                chance.choice(["dtype", "device", "seed", "workspace", "\x1b]0;x\x07"]): chance.choice(HOSTILE)
            }
        return value | {key: lied(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], lied(value[at], chance), *value[at + 1 :]]
    return chance.choice(HOSTILE)


def lying(file: Path, to: Path, chance: random.Random) -> None:
    """A file that says or holds something else, with a checksum that is right."""
    metadata, tensors = read_whole(file, "file", lambda _: None)
    key = chance.choice(sorted({*metadata, *tensors} - {"checksum"}))
    if key in tensors:
        tensor = tensors[key]
        numbers = chance.choice((float("nan"), float("inf"), 1e308, 1e30, 0, -1))
        filled = (
            torch.full(tensor.shape, numbers, dtype=torch.float64).to(tensor.dtype)
            if tensor.is_floating_point()
            else tensor.flip(0)
        )
        odd = (filled, tensor.flatten()[:-1], tensor.unsqueeze(0), tensor.to(torch.int32), tensor.to(torch.float16))
        tensors[key] = chance.choice(odd)
    elif metadata[key].startswith("{") and chance.random() < 0.9:
        metadata[key] = json.dumps(lied(json.loads(metadata[key]), chance))
    else:
        metadata[key] = chance.choice(
            ["", "[", "[" * 100_000, "3", "null", "[]", "1e999", "carving labels 2", "\x1b[2J"]
        )
    metadata["checksum"] = checksum(tensors, metadata)
    replace_whole(to, {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)


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


def main(folder: Path, tries: int, seed: int) -> None:
    """Try so many damages and lies of each file; print what happened as JSON."""
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # nothing of this is to last
    chance, files = random.Random(seed), samples(folder)
    for file, reader in files.items():
        assert outcome(reader, file) == "accepted", outcome(reader, file)
    before, counts, wrong = peak(), dict(damaged=0, lying=0, refused=0), []
    target = folder / "tried"
    for file, reader in files.items():
        whole = file.read_bytes()
        for _ in range(tries):
            other = damaged(whole, chance)
            if other == whole:
                continue
            target.write_bytes(other)
            counts["damaged"] += 1
            if (came := outcome(reader, target)) != "refused":
                wrong.append(f"damaged {file.name}: {came}")
        target.unlink()
        for _ in range(tries):
            lying(file, target, chance)
            counts["lying"] += 1
            came = outcome(reader, target)
            counts["refused"] += came == "refused"
            if came not in ("refused", "accepted"):
                wrong.append(f"lying {file.name}: {came}")
    print(json.dumps(dict(counts, wrong=wrong, grown=peak() - before)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""Every function that torch-hd and we have, side by side: the other verbs, structures, encodings.

`make bench` - three minutes. The rivals take turns in one run, in one thread. Prints a table (above 1: ours is faster)
and writes results/kit-speed.json. What torch-hd has not for an architecture, or gets wrong there, is left out
(tests/test_torchhd.py names it). The four verbs that vsa_speed.py measures are not here.
"""

from collections.abc import Callable

import torch
import torchhd
from measuring import Row, Run, medians, show, threads, write
from rich.console import Console

from carving import VSA, encodings, structures

D, MANY, LONG, FEATURES = 4_096, 1_000, 5_000, 64

# Ours with as many coordinates as theirs, their type, and the name of it.
PEERS = [
    (VSA("MAP-I", D), torchhd.MAPTensor, "MAP"),
    (VSA("BSC", D), torchhd.BSCTensor, "BSC"),
    (VSA("FHRR", D, accounting="coordinates"), torchhd.FHRRTensor, "FHRR"),
    (VSA("HRR", D), torchhd.HRRTensor, "HRR"),
    (VSA("VTB", D), torchhd.VTBTensor, "VTB"),
]
THERMOMETERS = {"thermometer", "thermometer, by a label"}
LEFT_OUT = {
    "HRR": {"multibind", "bind_sequence", "ngrams, n=3", "ngrams, n=5", "circular", *THERMOMETERS},
    "VTB": {"circular", "ngrams, n=5", *THERMOMETERS},
    "FHRR": {"soft_quantize", "hard_quantize"},
    "BSC": {"soft_quantize", "hard_quantize", "cosine_similarity"},
}
Sides = dict[str, tuple[Run, Run]]


def verbs(vsa: VSA, theirs: Callable, x: torch.Tensor, y: torch.Tensor) -> Sides:
    """The verbs on single vectors and on sets of them."""
    hd_x, hd_y, few = theirs(x), theirs(y), x[:100]
    hd_few, generator = theirs(few), torch.Generator().manual_seed(0)
    total = vsa.bundle(x[:5].unsqueeze(0)) if vsa.row.dtype else x.unflatten(0, (-1, 5)).sum(1)
    hd_total = theirs(total)
    return {
        "normalize": (lambda: vsa.normalize(total), lambda: torchhd.normalize(hd_total)),
        "inverse": (lambda: vsa.inverse(x), lambda: torchhd.inverse(hd_x)),
        "negative": (lambda: vsa.negative(x), lambda: torchhd.negative(hd_x)),
        "permute": (lambda: vsa.permute(x, 3), lambda: torchhd.permute(hd_x, shifts=3)),
        "soft_quantize": (lambda: vsa.soft_quantize(total), lambda: torchhd.soft_quantize(hd_total)),
        "hard_quantize": (lambda: vsa.hard_quantize(total), lambda: torchhd.hard_quantize(hd_total)),
        "dot_similarity": (lambda: vsa.dot_similarity(few, y), lambda: torchhd.dot_similarity(hd_few, hd_y)),
        "cosine_similarity": (lambda: vsa.cosine_similarity(few, y), lambda: torchhd.cosine_similarity(hd_few, hd_y)),
        "hamming_similarity": (
            lambda: vsa.hamming_similarity(few, y[:100]),
            lambda: torchhd.hamming_similarity(hd_few, theirs(y[:100])),
        ),
        "multibind": (
            lambda: vsa.multibind(x.unflatten(0, (-1, 10))),
            lambda: torchhd.multibind(theirs(x.unflatten(0, (-1, 10)))),
        ),
        "cross_product": (
            lambda: vsa.cross_product(few, y[:100]),
            lambda: torchhd.cross_product(hd_few, theirs(y[:100])),
        ),
        "randsel": (
            lambda: vsa.randsel(x, y, 0.5, generator),
            lambda: torchhd.randsel(hd_x, hd_y, p=0.5, generator=generator),
        ),
        "multirandsel": (
            lambda: vsa.multirandsel(few, generator=generator),
            lambda: torchhd.multirandsel(hd_few, generator=generator),
        ),
        "random": (lambda: vsa.random(100, generator), lambda: type(hd_x).random(100, D, generator=generator)),
        "cleanup": (lambda: structures.nearest(vsa, x[0], y, 0.0), lambda: torchhd.cleanup(hd_x[0], hd_y)),
    }


def sets(vsa: VSA, theirs: Callable, x: torch.Tensor, y: torch.Tensor, text: torch.Tensor) -> Sides:
    """Structures as single vectors."""
    hd_x, hd_y, hd_text, few = theirs(x), theirs(y), theirs(text), theirs(x[:50])
    return {
        "multiset": (lambda: structures.multiset(vsa, x), lambda: torchhd.multiset(hd_x)),
        "hash_table": (lambda: structures.hash_table(vsa, y, x), lambda: torchhd.hash_table(hd_x, hd_y)),
        "bundle_sequence": (lambda: structures.bundle_sequence(vsa, x), lambda: torchhd.bundle_sequence(hd_x)),
        "bind_sequence": (lambda: structures.bind_sequence(vsa, x[:50]), lambda: torchhd.bind_sequence(few)),
        "graph": (
            lambda: structures.graph(vsa, x, y, directed=True),
            lambda: torchhd.graph(theirs(torch.stack((x, y))), directed=True),
        ),
        "ngrams, n=3": (lambda: structures.ngrams(vsa, text, 3), lambda: torchhd.ngrams(hd_text, 3)),
        "ngrams, n=5": (lambda: structures.ngrams(vsa, text, 5), lambda: torchhd.ngrams(hd_text, 5)),
    }


def numbers(vsa: VSA, kind: str) -> Sides:
    """Encodings: tables of levels, drawn by a generator or by labels; values that a module encodes or looks up."""
    label, generator = {"label": "x"}, torch.Generator().manual_seed(0)
    drawn = {"generator": generator}
    values = torch.rand(10, FEATURES, generator=generator)
    level, hd_level = encodings.Level(vsa, **label), torchhd.embeddings.Level(101, D, kind)
    rounded = encodings.Level(vsa, levels=101, **label)
    sides: Sides = {
        "level": (lambda: encodings.level(vsa, 101, **drawn), lambda: torchhd.level(101, D, kind, **drawn)),
        "circular": (lambda: encodings.circular(vsa, 101, **drawn), lambda: torchhd.circular(101, D, kind, **drawn)),
        "thermometer": (
            lambda: encodings.thermometer(vsa, 101, **drawn),
            lambda: torchhd.thermometer(101, D, kind, **drawn),
        ),
        "random, by labels": (lambda: vsa.fillers(range(100)), lambda: torchhd.random(100, D, kind, **drawn)),
        "level, by a label": (lambda: encodings.level(vsa, 101, **label), lambda: torchhd.level(101, D, kind, **drawn)),
        "thermometer, by a label": (
            lambda: encodings.thermometer(vsa, 101, **label),
            lambda: torchhd.thermometer(101, D, kind, **drawn),
        ),
        "Level, rounded to 101": (
            lambda: rounded(values),
            lambda: hd_level(values),
        ),
        "Level, any number": (lambda: level(values), lambda: hd_level(values)),
    }
    if kind == "MAP":
        project, hd_project = encodings.Projection(vsa, FEATURES, **label), torchhd.embeddings.Projection(FEATURES, D)
        waves, hd_waves = encodings.Sinusoid(vsa, FEATURES, **label), torchhd.embeddings.Sinusoid(FEATURES, D)
        rows = values.repeat(100, 1)
        density, hd_density = encodings.Thermometer(vsa, **label), torchhd.embeddings.Density(FEATURES, D)
        record = encodings.Record(vsa, FEATURES, density, **label)
        sides["Projection"] = (lambda: project(rows), lambda: hd_project(rows))
        sides["Sinusoid"] = (lambda: waves(rows), lambda: hd_waves(rows))
        sides["Density"] = (lambda: record(values), lambda: hd_density(values))
    if kind in ("FHRR", "HRR"):
        power = encodings.FractionalPower(vsa, FEATURES, **label)
        hd_power = torchhd.embeddings.FractionalPower(FEATURES, D, vsa=kind)
        rows = values.repeat(10, 1)
        sides["FractionalPower"] = (lambda: power(rows), lambda: hd_power(rows))
    return sides


def measured(vsa: VSA, kind: type, name: str, seconds: float) -> list[Row]:
    """A row for each function."""
    generator = torch.Generator().manual_seed(0)
    x, y, letters = (vsa.random(count, generator) for count in (MANY, MANY, 27))
    text = letters[torch.randint(27, (LONG if name != "VTB" else 200,), generator=generator)]
    few = slice(None) if name != "VTB" else slice(0, 200)  # it takes seconds for more

    def theirs(z: torch.Tensor) -> torch.Tensor:
        return z.as_subclass(kind)

    sides = verbs(vsa, theirs, x, y) | sets(vsa, theirs, x[few], y[few], text) | numbers(vsa, name)
    rows: list[Row] = []
    for function, (ours, other) in sides.items():
        if function in LEFT_OUT.get(vsa.name, ()):
            continue
        taken = medians({"ours": ours, "torchhd": other}, seconds)
        ratio = taken["torchhd"] / taken["ours"]
        rows.append({"function": function, "architecture": vsa.name, "ms": taken["ours"] * 1e3, "ratio": ratio})
    return rows


def main() -> None:
    console = Console(width=120)
    rows: list[Row] = []
    with torch.inference_mode(), threads(1):
        for vsa, kind, name in PEERS:
            with console.status(vsa.name):
                rows += measured(vsa, kind, name, 0.3)
    show(console, "ours in milliseconds, and torch-hd's time over ours", rows)
    write("kit-speed.json", {"rows": rows})


if __name__ == "__main__":
    main()

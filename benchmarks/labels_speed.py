"""A head of labels beside a layer with an output for each label: numbers, a training step, the five best labels.

`python benchmarks/labels_speed.py` - ten minutes on two cores and 20 GB; `--most 100000` stops earlier. Synthetic
points of 100 features with 5 labels each, 256 at a time, one hidden layer of 512; the rivals take turns in one run.
Prints tables and writes results/labels-speed.json.

The head is OSC of order 2 in carved coordinates: `k1 * k1` outputs, however many labels there are. "Kept" holds the
labels' components (2 k1 numbers a label); "drawn" makes them from the labels' names whenever they are needed, and holds
nothing of the size of the labels; "levels" makes them from the labels' numbers, more cheaply; "grid" lets labels share
components, of which it holds 2 sqrt(L); "wide" is kept, of the paper's size (d=125, k1=42), whose outputs are more than
the hidden layer. Training needs the batch's own labels alone. The layer is trained with cross entropy over all its
outputs; "adaptive" is torch's AdaptiveLogSoftmaxWithLoss with clusters up to 1, 10 and 40 % of the labels, each
point counting once for each of its labels, as that layer takes one label a point.
"""

import argparse
import gc
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import Row, Run, medians, show, write
from rich.console import Console
from torch import Tensor, nn

from carving.multilabel.osc import OSCHead

SIZES = (1_000, 10_000, 50_000, 100_000, 300_000, 1_000_000)
POINTS, FEATURES, OWN, HIDDEN = 256, 100, 5, 512
K1 = 16  # 256 outputs: five labels of a million stand out of their own interference, sqrt(5 / 256), by seven deviations
HEADS = {
    "kept": dict(d=3 * K1, k1=K1),
    "grid": dict(d=3 * K1, k1=K1, dictionary=0),
    "drawn": dict(d=3 * K1, k1=K1, cached=False),
    "levels": dict(d=3 * K1, k1=K1, levels=True, cached=False),
    "wide": dict(d=125, k1=42),
}
RIVALS = ("layer", "adaptive")  # nn.Linear and nn.AdaptiveLogSoftmaxWithLoss
LINEAR = 100_000  # beyond so many labels "wide" is left out, and of "drawn" the best labels: they grow with the labels
SPARE = 3 * 2**30  # bytes that others on the machine may need

Runs = dict[str, Run]


def architecture(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, outputs))


def points(labels: int) -> tuple[Tensor, list[list[int]]]:
    generator = torch.Generator().manual_seed(labels)
    own = torch.randint(labels, (POINTS, OWN), generator=generator)
    return torch.randn(POINTS, FEATURES, generator=generator), [sorted(set(row)) for row in own.tolist()]


def trained(network: nn.Module, loss: Callable[[Tensor], Tensor], x: Tensor) -> Run:
    """One step of Adam."""
    optimizer = torch.optim.Adam(network.parameters())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(network(x)).backward()
        optimizer.step()

    return step


def with_head(head: OSCHead, x: Tensor, own: list[list[int]]) -> tuple[nn.Module, Run, Run]:
    network = architecture(head.width)

    def best() -> object:
        with torch.no_grad():
            return head.top(network(x), OWN)

    return network, trained(network, lambda out: head.loss(out, own), x), best


def kept(labels: int) -> tuple[nn.Module, Run, Run]:
    """The head that keeps its labels' components."""
    return with_head(OSCHead(labels, **HEADS["kept"]), *points(labels))


def with_layer(labels: int, x: Tensor, own: list[list[int]]) -> tuple[nn.Module, Run, Run]:
    network = architecture(labels)
    rows = torch.tensor([row for row, labels_of_point in enumerate(own) for _ in labels_of_point])
    columns = torch.tensor([label for labels_of_point in own for label in labels_of_point])

    def loss(logits: Tensor) -> Tensor:
        # Cross entropy without a dense matrix of targets, which would only slow the rival down.
        return (nn.functional.softplus(logits).sum() - logits[rows, columns].sum()) / len(rows)

    def best() -> object:
        with torch.no_grad():
            return network(x).topk(OWN)

    return network, trained(network, loss, x), best


def with_adaptive(labels: int, x: Tensor, own: list[list[int]]) -> tuple[nn.Module, Run, Run]:
    inner = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.LeakyReLU())
    cutoffs = [labels // 100, labels // 10, 2 * labels // 5]
    network = nn.Sequential(inner, nn.AdaptiveLogSoftmaxWithLoss(HIDDEN, labels, cutoffs))
    rows = torch.tensor([row for row, labels_of_point in enumerate(own) for _ in labels_of_point])
    columns = torch.tensor([label for labels_of_point in own for label in labels_of_point])
    optimizer = torch.optim.Adam(network.parameters())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        network[1](inner(x)[rows], columns).loss.backward()
        optimizer.step()

    def best() -> object:
        with torch.no_grad():
            return network[1].log_prob(inner(x)).topk(OWN)

    return network, step, best


def layer_bytes(labels: int) -> int:
    """What the layer's training takes: weights, gradients and Adam's two moments; logits thrice."""
    return 4 * labels * (4 * HIDDEN + 3 * POINTS)


def available() -> int:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def held(head: OSCHead) -> int:
    """Numbers that the head keeps beside the network: bases, and the labels' components or codes, if any."""
    kept = 0 if head._kept is None else head._kept.numel()  # whole codes, where they are few
    return kept + sum(tensor.numel() for tensor in head.buffers())


def measure(labels: int, seconds: float) -> tuple[Row, Row]:
    x, own = points(labels)
    small = labels <= LINEAR
    heads = {name: OSCHead(labels, **options) for name, options in HEADS.items() if small or name != "wide"}
    rivals = {name: with_head(head, x, own) for name, head in heads.items()}
    if layer_bytes(labels) + SPARE < available():
        rivals["layer"] = with_layer(labels, x, own)
        rivals["adaptive"] = with_adaptive(labels, x, own)
    steps: Runs = {name: step for name, (_, step, _) in rivals.items()}
    tops: Runs = {name: best for name, (_, _, best) in rivals.items() if small or name != "drawn"}
    for run in (*steps.values(), *tops.values()):  # Adam's moments, and what a head makes once, are made beforehand
        run()
    timings = ("step", medians(steps, seconds)), ("best", medians(tops, seconds))
    size: Row = {"labels": labels}
    for name in HEADS:
        last = rivals[name][0][-1].parameters() if name in rivals else []
        size[f"{name}_parameters"] = sum(p.numel() for p in last) or None
        size[f"{name}_codebook"] = held(heads[name]) if name in heads else None
    adaptive = rivals["adaptive"][0][-1].parameters() if "adaptive" in rivals else []
    size |= {"layer_parameters": labels * (HIDDEN + 1), "layer_training_MB": layer_bytes(labels) / 1e6}
    size["adaptive_parameters"] = sum(p.numel() for p in adaptive) or None
    time: Row = {"labels": labels}
    for what, taken in timings:
        for name in (*HEADS, *RIVALS):
            time[f"{what}_{name}_ms"] = taken[name] * 1e3 if name in taken else None
        for name in HEADS:
            both = "layer" in taken and name in taken
            time[f"{what}_{name}_ratio"] = taken["layer"] / taken[name] if both else None
    return size, time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of labels")
    parser.add_argument("--least", type=int, default=SIZES[0], help="the smallest")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each comparison")
    given = parser.parse_args()
    console, sizes, times = Console(width=180), [], []
    for labels in (size for size in SIZES if given.least <= size <= given.most):
        with console.status(f"{labels:,} labels"):
            size, time = measure(labels, given.seconds)
        sizes.append(size)
        times.append(time)
        gc.collect()
        write("labels-speed.json", dict(threads=torch.get_num_threads(), k1=K1, sizes=sizes, times=times))
    show(console, "numbers: trained in the last layer, and kept beside it", sizes)
    for what, title in (("step", "a training step"), ("best", "the five best labels")):
        rows = [{name: value for name, value in row.items() if name == "labels" or what in name} for row in times]
        show(console, f"{title} of {POINTS} points, milliseconds; ratios above 1: the head is faster", rows)


if __name__ == "__main__":
    main()

"""Whether probabilities of memories in few bits mean what they say, over several memories taken together.

    python benchmarks/bits_calibration.py [--memories 8] [--only solved]

Of each memory of 1,000 pairs, those that were not used for fitting are asked for, and as many paths that hold nothing;
recognized are their pairs, as many others of the same paths, and others of empty ones. Beside the calibration error (15
bins) stands that of a perfect model which says the same. A minute a line, or two.
"""

import argparse
import warnings

import torch
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor

from carving import OSC, Memory
from carving.errors import Overfull
from carving.lab.measures.calibration import error

PAIRS = 1000
#       d, k1, bits (0: real numbers)
SUMS = ((120, 10, 1), (200, 10, 1), (100, 10, 2), (170, 10, 2), (95, 10, 3), (92, 10, 4))
SOLVED = ((85, 4, 0), (90, 4, 0), (90, 6, 8), (90, 4, 4), (110, 6, 4), (127, 6, 2))

Said = list[tuple[float, bool]]  # probabilities, and whether it was so


def asked(d: int, k1: int, bits: int, solve: bool, seed: int) -> tuple[Said, Said]:
    """What one memory says of answers, and of pairs."""
    drawn = torch.randint(PAIRS, (PAIRS,), generator=Generator().manual_seed(seed)).tolist()
    pairs = [(("there", i), value) for i, value in enumerate(drawn)]
    memory = Memory(OSC(d, 2, k1, compact=True, seed=seed), range(PAIRS))
    memory.store(pairs)
    if solve:
        memory.consolidate(pairs, bits=bits or None)
        pairs = pairs[1::2]  # the others were used for fitting
    asking = memory.quantize(bits) if bits else memory
    empty = [("nowhere", i) for i in range(len(pairs))]
    answers = asking.recall_many([path for path, _ in pairs] + empty)
    values = [value for _, value in pairs] + [None] * len(empty)
    right = [(one.probability, one.value == value) for one, value in zip(answers, values, strict=True)]
    others = [(path, (value + 1 + i) % PAIRS) for i, (path, value) in enumerate(pairs) if i % 2 and (i + 1) % PAIRS]
    questions = [*pairs, *others, *((path, i) for i, path in enumerate(empty[::2]))]
    known = asking.recognize_many(questions)
    return right, [(one.probability, i < len(pairs)) for i, one in enumerate(known)]


def both_errors(parts: list[Said]) -> str:
    """The calibration error of all memories, and that of a perfect model."""
    said, so = torch.tensor([pair for part in parts for pair in part], dtype=torch.float64).unbind(1)
    return f"{error(said, so):.4f} ({error(said, luck(said)):.4f})"


def luck(said: Tensor) -> Tensor:
    """What a perfect model has that says so."""
    return torch.rand(len(said), generator=Generator().manual_seed(0), dtype=torch.float64).less(said).double()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=8)
    parser.add_argument("--only", choices=("sums", "solved"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", Overfull)
    table = Table("memories", "d", "k1", "bits", "answers (a perfect model's)", "recognition")
    for name, rows in (("sums", SUMS), ("solved", SOLVED)):
        for row in rows if options.only in (None, name) else ():
            every = [asked(*row, name == "solved", seed) for seed in range(options.memories)]
            answers, known = (both_errors(list(part)) for part in zip(*every, strict=True))
            table.add_row(name, *map(str, row), answers, known)
            Console().print(name, *row, answers, known)
    Console().print(table)


if __name__ == "__main__":
    main()

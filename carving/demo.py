"""The demonstration: ten thousand facts under paths of three roles, in one tensor, all asked for again."""

from collections.abc import Iterator
from itertools import product

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carving import capacity
from carving.draws import Path
from carving.osc import OSC
from carving.recall import top
from carving.vocabulary import Vocabulary

CHUNK = 250  # pairs between two steps of the progress bar


DOCUMENTS, SENTENCES, ROLES = 500, 4, ("subject", "verb", "object", "place", "time")


def facts(count: int) -> Iterator[tuple[Path, str]]:
    """Paths of three roles (document, sentence, role), each with a word of its own."""
    documents, sentences = (
        (f"document {i}" for i in range(DOCUMENTS)),
        (f"sentence {i}" for i in range(SENTENCES)),
    )
    places = product(documents, sentences, ROLES)
    return ((path, f"word {i}") for i, path in zip(range(count), places, strict=False))


def run(console: Console, pairs: int = 10_000, d: int = 80, p: int = 3, seed: int = 0) -> float:
    """Store the facts, ask for each of them, and print what came back and what it cost."""
    scheme = OSC(d, p, seed=seed)
    paths, words = zip(*facts(pairs), strict=True)
    vocabulary = Vocabulary(words)
    memory = scheme.zeros()
    fillers = scheme.fillers(vocabulary)
    starts = range(0, pairs, CHUNK)

    for start in track(starts, f"storing {pairs:,} pairs", console=console):
        rows = slice(start, start + CHUNK)
        memory += scheme.trace(paths[rows], fillers[rows])

    answers = [
        top(scheme, memory, paths[start : start + CHUNK], fillers).indices[:, 0]
        for start in track(starts, f"asking {pairs:,} questions", console=console)
    ]
    found = torch.cat(answers)
    right = float(found.eq(torch.arange(pairs)).double().mean())

    for place in (0, pairs // 2, pairs - 1):
        console.print(f"  {' / '.join(map(str, paths[place]))}  ->  {vocabulary[int(found[place])]!s}")
    predicted = capacity.osc_accuracy(d, p, scheme.k1, pairs, len(vocabulary))
    console.print(f"\nright answers: [bold]{right:.2%}[/bold]   predicted: {predicted:.2%}\n")
    documents = len({path[0] for path in paths})
    console.print(budget(scheme, pairs, len(vocabulary), documents, predicted))
    return right


def budget(scheme: OSC, pairs: int, words: int, documents: int, accuracy: float) -> Table:
    """The numbers held by this memory, and by others of the same predicted accuracy."""
    tpr = capacity.smallest(lambda d: capacity.tpr_accuracy(d, pairs, words), accuracy)
    vsa = capacity.smallest(lambda d: capacity.vsa_accuracy(d, pairs, words), accuracy)
    table = Table(title=f"Numbers to hold for {accuracy:.2%}", title_justify="left")
    for column in ("", "memory", "codebook", "together"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for name, cells, codebook in (
        (f"OSC, d={scheme.d}, p={scheme.p}", scheme.d**scheme.p, words * scheme.p * scheme.d),
        (f"TPR, a role a path, d={tpr}", tpr**2, words * tpr),
        # Exact only while the roles of a level are orthogonal: d cannot be smaller than its widest level.
        (f"TPR, a role a level, d={documents}", documents**4, words * documents),
        (f"the best VSA, d={vsa:,}", vsa, words * vsa),
    ):
        table.add_row(name, f"{cells:,}", f"{codebook:,}", f"{cells + codebook:,}")
    return table

"""The demonstration: a thousand parse trees in one tensor, every leaf asked for again."""

import random
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from carving import formats
from carving.answers.answer import Answer
from carving.formats.documents import Document, Pair, flatten
from carving.memory import Memory
from carving.prediction import alone as capacity
from carving.prediction import plan as planner
from carving.prediction.plan import Plan
from carving.progress import bar
from carving.schemes import make
from carving.symbols import canonical

# A small grammar of English: a symbol becomes one of its expansions, each a dict of roles and what stands there.
GRAMMAR: dict[str, list[dict[str, str]]] = {
    "sentence": [{"subject": "noun phrase", "predicate": "verb phrase"}],
    "verb phrase": [
        {"verb": "transitive", "object": "noun phrase"},
        {"verb": "transitive", "object": "noun phrase", "place": "place phrase"},
        {"verb": "intransitive", "place": "place phrase"},
    ],
    "noun phrase": [{"determiner": "determiner", "nominal": "nominal"}],
    "place phrase": [{"preposition": "preposition", "object": "short phrase"}],
    "short phrase": [{"determiner": "determiner", "noun": "noun"}],
    "nominal": [{"noun": "noun"}, {"modifier": "adjective", "noun": "noun"}],
}
WORDS = {
    "determiner": "the a every some no this that another",
    "noun": "dog cat child teacher river stone apple horse garden letter mountain song window boat farmer king bird "
    "tree house ball book lamp road cloud doctor baker wolf star ship field",
    "adjective": "old young green quiet happy small bright heavy strange brave tired golden early wooden silent tall",
    "transitive": "chased saw carried found painted followed heard built sold opened lost loved wrote watched kept",
    "intransitive": "slept waited sang fell stood laughed arrived swam danced rested",
    "preposition": "near behind under above beside before across inside",
}
LEXICON = {symbol: words.split() for symbol, words in WORDS.items()}
LOUD = 1.2  # how much louder some contexts are than others where all are asked together
DEPTH = 5  # roles in the longest path, the tree itself being the first


def tree(symbol: str, chance: random.Random) -> Document:
    """A random tree of the grammar, as nested dicts."""
    if symbol in LEXICON:
        return chance.choice(LEXICON[symbol])
    return {role: tree(below, chance) for role, below in chance.choice(GRAMMAR[symbol]).items()}


def treebank(count: int, seed: int = 0) -> dict[str, Document]:
    """As many parse trees, by their names."""
    chance = random.Random(seed)
    return {f"tree {i}": tree("sentence", chance) for i in range(1, count + 1)}


def run(
    console: Console,
    trees: int = 1000,
    conllu: FilePath | None = None,
    accuracy: float = 0.99,
    picture: FilePath | None = None,
) -> dict[str, Any]:
    """Store the trees in a memory that the planner chose, ask for every leaf, and show what came back."""
    pairs: list[Pair] = list(flatten(treebank(trees)) if conllu is None else formats.pairs(conllu, "conllu"))
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    words = len(set(map(canonical, leaves)))
    plan = planner.plan(len(pairs), words, accuracy)
    memory = Memory(make(plan.scheme, **plan.parameters))
    console.print(
        f"{len(pairs):,} leaves of {words:,} different words; the planner chose {named(plan)}: {plan.cells:,} numbers\n"
    )
    with bar(console, "storing", len(pairs)) as advance:
        memory.store(pairs, on_progress=advance)
    with bar(console, "asking for every leaf", len(pairs)) as advance:
        answers: list[Answer] = memory.recall_many(paths, absence=0.0, on_progress=advance)
    right = sum(answer.leaf == leaf for answer, leaf in zip(answers, leaves, strict=True)) / len(pairs)

    for place in (0, len(pairs) // 2, len(pairs) - 1):
        answer = answers[place]
        console.print(
            f"  {escape(' / '.join(map(str, paths[place])))}  ->  {answer.leaf!s}  ({answer.probability:.2%})"
        )
    nowhere = ("tree 0", *paths[0][1:])
    nothing = memory.recall(*nowhere)
    what = "nothing" if not nothing else nothing.leaf
    console.print(f"  {escape(' / '.join(map(str, nowhere)))}  ->  {what!s}  ({nothing.probability:.2%})")
    console.print(f"\nright answers: [bold]{right:.2%}[/bold]   predicted: {plan.accuracy:.2%}")
    together, found = asked_together(console, pairs, words, accuracy)
    console.print(
        f"all leaves asked for together, of a memory of {together.cells:,} numbers: [bold]{found:.2%}[/bold] right\n"
    )
    console.print(budget(plan, together, len(pairs), words, paths))
    if picture is not None:
        draw(memory, list(islice(pairs, 0, None, max(1, len(pairs) // 2000))), picture)
        console.print(f"\nthe scores of true and of false candidates: {escape(str(picture))}")
    return dict(
        pairs=len(pairs),
        words=words,
        scheme=plan.scheme,
        parameters=plan.parameters,
        right=right,
        predicted=plan.accuracy,
        together=dict(cells=together.cells, right=found),
    )


def asked_together(console: Console, pairs: list[Pair], words: int, accuracy: float) -> tuple[Plan, float]:
    """A smaller memory, and the share of right answers when all leaves are asked for together."""
    plan = planner.plan(len(pairs), words, accuracy, joint=True, spread=LOUD)
    memory = Memory(make(plan.scheme, **plan.parameters))
    memory.store(pairs)
    with bar(console, "asking for all together", len(pairs)) as advance:
        answers = memory.recall_all([path for path, _ in pairs], absence=0.0, on_progress=advance)
    return plan, sum(answer.leaf == leaf for answer, (_, leaf) in zip(answers, pairs, strict=True)) / len(pairs)


def budget(plan: Plan, together: Plan, pairs: int, words: int, paths: list[Any]) -> Table:
    """The numbers held by this memory, and by others of the same predicted accuracy."""
    depth = max(map(len, paths))
    # Exact only while the roles of a level are orthogonal: d cannot be smaller than the widest level.
    widest = max(len({path[level] for path in paths if len(path) > level}) for level in range(depth))
    vsa = capacity.smallest(lambda d: capacity.vsa_accuracy(d, pairs, words), plan.accuracy)
    tpr = capacity.smallest(lambda d: capacity.tpr_accuracy(d, pairs, words), plan.accuracy)
    paper = planner.plan(pairs, words, plan.accuracy, scheme="OSC", compact=False)
    rows = (
        (f"{named(together)}, all together", together.cells, together.codebook),
        (named(plan), plan.cells, plan.codebook),
        (f"{named(paper)}, as in the paper", paper.cells, paper.codebook),
        (f"the best VSA, d={vsa:,}", vsa, words * vsa),
        (f"TPR, a role a path, d={tpr}", tpr**2, words * tpr),
        (f"TPR, a role a level: order {depth + 1}, d={widest:,}", widest ** (depth + 1), words * widest),
    )
    shown = [
        (name, *(f"{n:,}" if n < 10**12 else f"{n:.1e}" for n in (cells, codebook, cells + codebook)))
        for name, cells, codebook in rows
    ]
    table = Table(
        title=f"Numbers to hold for {plan.accuracy:.2%}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("")
    for column, name in enumerate(("memory", "codebook", "together"), start=1):
        table.add_column(name, justify="right", min_width=max(len(row[column]) for row in shown))
    for row in shown:
        table.add_row(*row)
    return table


def named(plan: Plan) -> str:
    """A plan's scheme and its sizes."""
    sizes = ", ".join(f"{key}={value}" for key, value in plan.parameters.items() if key in ("d", "p", "k1"))
    return f"{plan.scheme}{' compact' if plan.compact else ''}, {sizes}"


def draw(memory: Memory, pairs: list[Pair], file: FilePath) -> None:
    """A picture of the scores of what is stored and of what is not."""
    chance = random.Random(0)
    others: list[Pair] = [
        (path, chance.choice([w for w in memory.vocabulary.labels if w != leaf])) for path, leaf in pairs
    ]
    true, false = ([answer.score for answer in memory.recognise_many(some)] for some in (pairs, others))
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    bins = torch.linspace(min(false + true), max(false + true), 60).tolist()
    axes.hist(false, bins=bins, color="0.75", edgecolor="0.35", hatch="///", linewidth=0.4, label="not stored there")
    axes.hist(true, bins=bins, color="#1f5fa8", alpha=0.8, label="stored there")
    axes.set_xlabel("score of a leaf in its context")
    axes.set_ylabel("how many")
    axes.set_title(f"{memory.pairs:,} pairs in {memory.scheme.facts.memory_scalars:,} numbers", loc="left", fontsize=11)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)

"""`carving demo`: a thousand parse trees in one tensor, every value recalled."""

import random
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from carving import formats
from carving.cli.options import Accuracy, Json, examples
from carving.cli.output import number_table, screen, write_json
from carving.console import bar
from carving.errors import BadValue
from carving.formats.documents import Document, Pair, flatten
from carving.inference.answer import Answer
from carving.memory import Memory
from carving.optional import MissingExtra, load
from carving.planner import plan as planner
from carving.planner.design import find_first
from carving.planner.families import tpr_accuracy, vsa_accuracy
from carving.planner.plan import Plan
from carving.schemes import make
from carving.storage.locks import check_target
from carving.symbols.codec import Path, canonical

DEMO_EPILOG = examples("carving demo", "carving demo --trees 100", "carving demo --conllu en_ewt-ud-dev.conllu.xz")
PICTURES = (".png", ".svg", ".pdf", ".jpg")

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
MANY = 20_000  # values: of more, a sample is asked for, and not all together, so that nobody waits for minutes
SAMPLE = 2_000  # the values of that sample
SCORES = 2_000  # about so many true and false candidates are in the picture


def demo(
    trees: Annotated[int, typer.Option(min=1, max=100_000, help="Number of parse trees to generate and store.")] = 1000,
    conllu: Annotated[FilePath | None, typer.Option(help="Store this treebank (CoNLL-U) instead.")] = None,
    accuracy: Accuracy = 0.99,
    picture: Annotated[FilePath, typer.Option(help="File for the figure of the scores.")] = FilePath("demo.png"),
    as_json: Json = False,
) -> None:
    """Store 1,000 parse trees in one tensor and recall them all."""
    check_target(picture)
    if picture.suffix.lower() not in PICTURES:
        raise BadValue(f"--picture must end in {', '.join(PICTURES)}, got {picture}.")
    console = Console(quiet=True) if as_json else screen()
    outcome = run(console, trees=trees, conllu=conllu, accuracy=accuracy, picture=picture)
    if as_json:
        write_json(outcome)


def tree(symbol: str, chance: random.Random) -> Document:
    """A random tree of the grammar, as nested dicts."""
    if symbol in LEXICON:
        return chance.choice(LEXICON[symbol])
    return {role: tree(below, chance) for role, below in chance.choice(GRAMMAR[symbol]).items()}


def treebank(count: int, seed: int = 0) -> dict[str, Document]:
    """Return `count` random parse trees by name."""
    chance = random.Random(seed)
    return {f"tree {i}": tree("sentence", chance) for i in range(1, count + 1)}


def stored(trees: int = 1000, accuracy: float = 0.99) -> tuple[Memory, list[Pair]]:
    """Return a planned memory of random trees, which keeps its paths, and the pairs stored in it."""
    pairs = list(flatten(treebank(trees)))
    words = len({canonical(value) for _, value in pairs})
    memory = Memory.from_plan(planner.plan(len(pairs), words, accuracy), words, accuracy, keep_paths=True)
    memory.store(pairs)
    return memory, pairs


def run(
    console: Console,
    trees: int = 1000,
    conllu: FilePath | None = None,
    accuracy: float = 0.99,
    picture: FilePath | None = None,
) -> dict[str, object]:
    """Store the trees in a planned memory, recall every value, and print the results."""
    pairs: list[Pair] = list(flatten(treebank(trees)) if conllu is None else formats.pairs(conllu, "conllu"))
    words = len({canonical(value) for _, value in pairs})
    plan = planner.plan(len(pairs), words, accuracy)
    memory = Memory(make(plan.scheme, **plan.parameters))
    console.print(
        f"{len(pairs):,} pairs with {words:,} distinct values. The planner chose {plan_text(plan)}: "
        f"{plan.cells:,} cells.\n"
    )
    with bar(console, "storing", len(pairs)) as advance:
        memory.store(pairs, on_progress=advance)
    sample = pairs if len(pairs) <= MANY else sample_of(pairs, SAMPLE)
    what = "every value" if sample is pairs else f"{len(sample):,} values"
    with bar(console, f"recalling {what}", len(sample)) as advance:
        answers: list[Answer] = memory.recall_many([path for path, _ in sample], prior_empty=0.0, on_progress=advance)
    right = share(answers, sample)
    show_answers(console, memory, sample, answers)
    asked = "" if sample is pairs else f" (of a random sample of {len(sample):,})"
    console.print(f"\nCorrect answers: [bold]{right:.2%}[/bold]{asked}   predicted: {plan.accuracy:.2%}")
    together = planner.plan(len(pairs), words, accuracy, joint=True, spread=LOUD)
    right_together = ask_together(console, together, pairs)
    console.print(budget(plan, together, len(pairs), words, [path for path, _ in pairs]))
    if picture is not None:
        show_picture(console, memory, sample_of(pairs, SCORES), picture)
    return dict(
        pairs=len(pairs),
        words=words,
        scheme=plan.scheme,
        parameters=plan.parameters,
        total=len(sample),
        correct=right,
        predicted_accuracy=plan.accuracy,
        joint=dict(cells=together.cells, correct=right_together),
    )


def sample_of(pairs: list[Pair], count: int) -> list[Pair]:
    """Return a random sample of the pairs, in their order."""
    if len(pairs) <= count:
        return pairs
    chosen = random.Random(0).sample(range(len(pairs)), count)
    return [pairs[i] for i in sorted(chosen)]


def share(answers: Sequence[Answer], pairs: list[Pair]) -> float:
    """The share of right answers."""
    return sum(answer.value == value for answer, (_, value) in zip(answers, pairs, strict=True)) / len(pairs)


def show_answers(console: Console, memory: Memory, pairs: list[Pair], answers: Sequence[Answer]) -> None:
    """The first, the middle and the last answer, and that to a path where nothing is stored."""
    for i in (0, len(pairs) // 2, len(pairs) - 1):
        path, value = " / ".join(map(str, pairs[i][0])), str(answers[i].value)
        console.print(f"  {escape(path)}  ->  {escape(value)}  ({answers[i].probability:.2%})")
    nowhere = ("tree 0", *pairs[0][0][1:])
    nothing = memory.recall(*nowhere)
    value = str(nothing.value) if nothing else "nothing stored"
    console.print(f"  {escape(' / '.join(map(str, nowhere)))}  ->  {escape(value)}  ({nothing.probability:.2%})")


def ask_together(console: Console, plan: Plan, pairs: list[Pair]) -> float | None:
    """The share of right answers of a smaller memory when all values are asked for together; None if they are many."""
    if len(pairs) > MANY:
        console.print(
            f"Joint decoding would need only {plan.cells:,} cells. This is predicted, not measured: with this many "
            f"pairs it takes minutes.\n"
        )
        return None
    memory = Memory(make(plan.scheme, **plan.parameters))
    memory.store(pairs)
    with bar(console, "joint decoding", len(pairs)) as advance:
        answers = memory.decode([path for path, _ in pairs], prior_empty=0.0, on_progress=advance)
    right = share(answers, pairs)
    console.print(f"Joint decoding of a memory of {plan.cells:,} cells: [bold]{right:.2%}[/bold] correct\n")
    return right


def budget(plan: Plan, together: Plan, pairs: int, words: int, paths: list[Path]) -> Table:
    """The numbers held by this memory, and by others of the same predicted accuracy."""
    depth = max(map(len, paths))
    # Exact only while the roles of a level are orthogonal: d cannot be smaller than the widest level.
    widest = max(len({path[level] for path in paths if len(path) > level}) for level in range(depth))
    vsa = find_first(lambda d: vsa_accuracy(d, pairs, words) >= plan.accuracy, 2, 2)
    tpr = find_first(lambda d: tpr_accuracy(d, pairs, words) >= plan.accuracy, 2, 2)
    paper = planner.plan(pairs, words, plan.accuracy, scheme="OSC", compact=False, basis="gaussian", slack=0)
    rows = (
        (f"{plan_text(together)}, joint decoding", together.cells, together.codebook),
        (plan_text(plan), plan.cells, plan.codebook),
        (f"{plan_text(paper)}, as in the paper", paper.cells, paper.codebook),
        (f"best VSA, d={vsa:,}", vsa, words * vsa),
        (f"TPR, one role per path, d={tpr}", tpr**2, words * tpr),
        (f"TPR, one role per level: order {depth + 1}, d={widest:,}", widest ** (depth + 1), words * widest),
    )
    numbers = [(cells, codebook, cells + codebook) for _, cells, codebook in rows]
    columns = {"": [name for name, _, _ in rows]}
    for place, header in enumerate(("memory", "codebook", "total")):
        columns[header] = [f"{row[place]:,}" if row[place] < 10**12 else f"{row[place]:.1e}" for row in numbers]
    return number_table(f"Numbers needed for an accuracy of {plan.accuracy:.2%}", columns)


def plan_text(plan: Plan) -> str:
    """A plan's scheme and its sizes."""
    sizes = ", ".join(f"{key}={value}" for key, value in plan.parameters.items() if key in ("d", "p", "k1"))
    return f"{plan.scheme}{' compact' if plan.compact else ''}, {sizes}"


def show_picture(console: Console, memory: Memory, pairs: list[Pair], file: FilePath) -> None:
    """Draw the scores, if there is what draws them."""
    try:
        draw(memory, pairs, file)
    except MissingExtra as missing:
        console.print(f"\nNo figure of the scores: {escape(str(missing))}", soft_wrap=True)
    else:
        console.print(f"\nFigure of the scores of true and false candidates: {escape(str(file))}", soft_wrap=True)


def draw(memory: Memory, pairs: list[Pair], file: FilePath) -> None:
    """A picture of the scores of what is stored and of what is not."""
    figures = load("matplotlib.figure")
    chance = random.Random(0)
    others: list[Pair] = [(path, chance.choice([w for w in memory.vocabulary if w != value])) for path, value in pairs]
    true, false = ([answer.score for answer in memory.recognize_many(asked)] for asked in (pairs, others))
    figure = figures.Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    bins = torch.linspace(min(false + true), max(false + true), 60).tolist()
    axes.hist(false, bins=bins, color="0.75", edgecolor="0.35", hatch="///", linewidth=0.4, label="not stored")
    axes.hist(true, bins=bins, color="#1f5fa8", alpha=0.8, label="stored")
    axes.set_xlabel("score of a value in its context")
    axes.set_ylabel("count")
    axes.set_title(f"{memory.pairs:,} pairs in {memory.scheme.facts.memory_scalars:,} cells", loc="left", fontsize=11)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)

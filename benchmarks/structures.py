"""Real structures in one memory each.  `python benchmarks/structures.py FOLDER` - WordNet and a treebank, half an hour.

FOLDER holds wn18rr_train.tsv.xz (WordNet as triples: a head and a relation ask for the set of tails) and
en_ewt-ud-dev.conllu.xz (2,001 parsed sentences: every token's form, tag and head label). The planner chooses the
memories, and weighs what questions take. Beside them stand memories of the same size as the paper has them, without
signs. Shares are of the rate of a large product, from labels to tensor and to answers, in the operations that are done.
"""

import argparse
import json
import resource
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from lines import matching_work, reading_work, storing_work
from measuring import Row, gemm, show, timed
from rich.console import Console

from carving import Memory, formats, plan
from carving.console import bar
from carving.errors import Overfull
from carving.planner.plan import Plan
from carving.schemes.osc import OSC
from carving.symbols.codec import Path as RolePath
from carving.symbols.codec import Value

RESULTS = Path(__file__).parent.parent / "results" / "structures.json"
SOLVED_K1 = 6  # small cores hold most where the tensor is solved
SAMPLE = 4000  # questions to the memory without signs
WANTED = {"asking_seconds": ("<=", 240.0), "storing_share": (">=", 0.75), "micro_f1": (">=", 0.9965)}


def gemm_rate() -> float:
    """Operations a second of a square product, the best of some."""
    run, operations = gemm()
    return operations / min(timed(run) for _ in range(8))


def paper_like(chosen: Plan) -> OSC:
    """A memory of the same size with the paper's contexts and fillers, without signs: compact fillers need them."""
    return OSC(chosen.d, chosen.p, chosen.k1, signed=False, basis="gaussian")


def plain_figures(plan: Plan) -> dict[str, Any]:
    return dict(parameters=plan.parameters, numbers=plan.cells, operations=plan.operations)


def micro_f1(held: dict[RolePath, set[Value]], answers: dict[RolePath, set[Value]]) -> float:
    both = sum(len(answers[path] & held[path]) for path in answers)
    return 2 * both / sum(len(answers[path]) + len(held[path]) for path in answers)


def wordnet(console: Console, file: Path) -> dict[str, Any]:
    pairs = list(formats.pairs(file))
    held: dict[RolePath, set[Value]] = defaultdict(set)
    for path, value in pairs:
        held[path].add(value)
    values = len({value for _, value in pairs})
    start = time.perf_counter()
    # More than 0.99, because a set must not only come first but be told from the rest, and because the share is one of
    # questions: the largest fail first, and one of them holds 442 values.
    sizes = dict(Counter(len(tails) for tails in held.values()))
    chosen = plan(len(pairs), values, 0.9995, shared=sizes, scheme="OSC")
    planning = time.perf_counter() - start
    console.print(f"WordNet: {len(pairs):,} triples, {len(held):,} questions; planned in {planning:.0f} s: {chosen}")
    scheme = OSC(**chosen.parameters)
    blocks = scheme.basis == "blocks"
    memory = Memory(scheme)
    first, start = gemm_rate(), time.perf_counter()
    with bar(console, "storing", len(pairs)) as advance:
        memory.store(pairs, on_progress=advance)
    storing = time.perf_counter() - start
    second, start = gemm_rate(), time.perf_counter()
    with bar(console, "asking", len(held)) as advance:
        answers = memory.recall_sets(list(held), on_progress=advance)
    asking = time.perf_counter() - start
    third = gemm_rate()
    found = {path: {answer.value for answer in answer} for path, answer in zip(held, answers, strict=True)}
    work = reading_work(scheme, blocks) + matching_work(scheme, blocks, values)
    unsigned = Memory(paper_like(chosen))
    unsigned.store(pairs)
    some = list(held)[:: max(1, len(held) // SAMPLE)]
    plain = unsigned.recall_sets(some)
    return dict(
        parameters=chosen.parameters,
        numbers=chosen.cells,
        operations=chosen.operations,
        smallest=chosen.extreme and plain_figures(chosen.extreme),
        predicted=chosen.accuracy,
        planning_seconds=planning,
        storing_seconds=storing,
        asking_seconds=asking,
        micro_f1=micro_f1(held, found),
        whole_sets=sum(found[path] == held[path] for path in held) / len(held),
        storing_share=len(pairs) * storing_work(scheme, blocks) / storing / ((first + second) / 2),
        asking_share=len(held) * work / asking / ((second + third) / 2),
        gemm_gflops=second / 1e9,
        unsigned_micro_f1=micro_f1(
            held, {path: {answer.value for answer in answer} for path, answer in zip(some, plain, strict=True)}
        ),
        unsigned_questions=len(some),
    )


def treebank(console: Console, file: Path) -> dict[str, Any]:
    pairs = list(formats.pairs(file, fields=["form", "upos", "deprel"]))
    # More than 0.99, because tags come thousands of times and the planner takes every value to come about as often.
    chosen = plan(len(pairs), len({value for _, value in pairs}), 0.9995, scheme="OSC")
    console.print(f"treebank: {len(pairs):,} pairs; planned: {chosen}")
    rates, seconds = {}, {}
    for signed in (True, False):
        memory = Memory(OSC(**chosen.parameters) if signed else paper_like(chosen))
        start = time.perf_counter()
        with bar(console, "storing", len(pairs)) as advance:
            memory.store(pairs, on_progress=advance)
        asked = pairs if signed else pairs[:: max(1, len(pairs) // SAMPLE)]
        with bar(console, "asking", len(asked)) as advance:
            answers = memory.recall_many([path for path, _ in asked], prior_empty=0.0, on_progress=advance)
        seconds[signed] = time.perf_counter() - start
        right = [(path[-1], answer.value == value) for (path, value), answer in zip(asked, answers, strict=True)]
        rates[signed] = {
            field: sum(true for name, true in right if name == field) / sum(name == field for name, _ in right)
            for field in ("form", "upos", "deprel")
        } | {"all": sum(true for _, true in right) / len(right)}
    return dict(
        parameters=chosen.parameters,
        pairs=len(pairs),
        numbers=chosen.cells,
        predicted=chosen.accuracy,
        right=rates[True],
        seconds=seconds[True],
        unsigned=rates[False]["all"],
    )


def solved_treebank(console: Console, file: Path) -> dict[str, Any]:
    """The treebank in a third of the cells that it is planned for, solved instead of summed: `--only solved`."""
    pairs = list(formats.pairs(file, fields=["form", "upos", "deprel"]))
    chosen = plan(len(pairs), len({value for _, value in pairs}), 0.9995, scheme="OSC")
    scheme = OSC(int((chosen.cells / 3) ** 0.5), 2, SOLVED_K1, compact=True)
    console.print(f"treebank: {len(pairs):,} pairs; planned {chosen.cells:,} cells, solved in {scheme.d**2:,}")
    memory = Memory(scheme)
    with bar(console, "storing", len(pairs)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        memory.store(pairs, on_progress=advance)
    start, processor = time.perf_counter(), time.process_time()
    with bar(console, "consolidating", len(pairs)) as advance:
        outcome = memory.consolidate(pairs, accuracy=0.9999, on_progress=advance)
    return dict(
        parameters=scheme.parameters,
        pairs=len(pairs),
        planned=chosen.cells,
        numbers=scheme.d**2,
        by_addition=outcome.before / outcome.pairs,
        right=outcome.accuracy,
        passes=outcome.evaluations,
        seconds=time.perf_counter() - start,
        processor_seconds=time.process_time() - processor,
    )


def requirements(found: dict[str, Any]) -> list[Row]:
    """The figures that were wished for beside those that were measured."""
    return [
        {"figure": name, "wanted": f"{sign} {number}", "measured": found[name]}
        for name, (sign, number) in WANTED.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=["wordnet", "treebank", "solved"])
    chosen = parser.parse_args()
    console = Console()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, run, file in (
        ("treebank", treebank, "en_ewt-ud-dev.conllu.xz"),
        ("solved", solved_treebank, "en_ewt-ud-dev.conllu.xz"),
        ("wordnet", wordnet, "wn18rr_train.tsv.xz"),
    ):
        if chosen.only in (None, name):
            results[name] = run(console, chosen.folder / file)
            results[name]["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            console.print(results[name])
            if name == "wordnet":
                show(console, "wanted, and measured", requirements(results[name]))
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

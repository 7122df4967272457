"""`carving plan`: the smallest memory for a number of pairs, or the most pairs for a number of cells."""

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

import typer
from rich.table import Table

from carving.cli.locking import locked
from carving.cli.options import Json, KeepPaths, Task, examples
from carving.cli.output import number_table, screen, write_json, write_line
from carving.errors import BadValue
from carving.memory import Memory
from carving.planner.plan import Plan, plans, plans_within
from carving.storage.locks import check_target
from carving.validate import show_bits, show_bytes

PLAN_EPILOG = examples(
    "carving plan --pairs 10000 --vocabulary 2000",
    "carving plan --numbers 1000000 --vocabulary 2000 --accuracy 0.999",
    "carving plan --pairs 10000 --vocabulary 10000 --joint --spread 1.2",
    "carving plan --pairs 1000 --vocabulary 1000 --joint --spread 0.6 --bits auto",
    "carving plan --pairs 10000 --vocabulary 2000 --out empty.safetensors --keep-paths",
)


def plan(
    task: Task,
    pairs: Annotated[int | None, typer.Option(min=1, help="Number of pairs to store.")] = None,
    numbers: Annotated[
        int | None,
        typer.Option(min=1, help="Instead of --pairs: the budget, in numbers of the memory and its codebook."),
    ] = None,
    joint: Annotated[bool, typer.Option("--joint", help="Also plan for joint decoding of all paths.")] = False,
    spread: Annotated[
        float,
        typer.Option(min=0, max=4, help="With --joint: spread of the amplitudes of contexts, which adds capacity."),
    ] = 0.0,
    out: Annotated[
        FilePath | None,
        typer.Option(help="Write an empty memory of the best plan (with --joint: the best joint one) to a new file."),
    ] = None,
    keep_paths: KeepPaths = False,
    as_json: Json = False,
) -> None:
    """Find the smallest memory for a number of pairs.

    With --numbers, find the memory that holds the most pairs within a budget of numbers.
    """
    best_plans = planner(pairs, numbers)
    check_options(joint, spread, out, keep_paths)
    alone = best_plans(**task.requirements())
    together = best_plans(**task.requirements(), joint=True, spread=spread) if joint else []
    chosen = (together or alone)[0]
    if out is not None:
        write_empty(out, chosen, task, keep_paths)
    if as_json:
        write_json(as_facts(alone) | ({"together": as_facts(together)} if together else {}))
        return
    write_plans(alone, together, "Smallest memories" if numbers is None else "Memories with the most pairs")
    if out is not None:
        write_line(f"Wrote an empty memory of {plan_text(chosen)} to {out}. `carving store {out} FILES` fills it.")


def as_facts(found: list[Plan]) -> dict[str, object]:
    """What programs read: the chosen plan, and the others in it."""
    best, *others = map(asdict, found)
    return best | {"others": others}


def check_options(joint: bool, spread: float, out: FilePath | None, keep_paths: bool) -> None:
    """Refuse options that say nothing without others."""
    if out is not None:
        check_new(out)
    elif keep_paths:
        raise BadValue("--keep-paths requires --out, the file of the memory that keeps them.")
    if spread and not joint:
        raise BadValue(f"--spread {spread} requires --joint: it helps joint decoding only.")


def write_empty(file: FilePath, best: Plan, task: Task, keep_paths: bool) -> None:
    """Write an empty memory of a plan."""
    with locked(file):
        check_new(file)  # another command may have made it meanwhile
        Memory.from_plan(best, task.vocabulary, task.accuracy, keep_paths=keep_paths).save(file)


def write_plans(alone: list[Plan], together: list[Plan], title: str) -> None:
    """The plan and the alternatives, and beside them those for answering all paths together."""
    console = screen()
    console.print(plan_table(alone, title))
    write_cheaper(alone[0])
    if together:
        console.print(plan_table(together, f"{title} for joint decoding"))
        write_cheaper(together[0])
        write_line(comparison(alone[0], together[0]))


def check_new(file: FilePath) -> None:
    """Refuse a place where a file is, or can be none."""
    check_target(file)
    if os.path.lexists(file):
        raise BadValue(f"{file} exists already. Name a new file for the empty memory.")


def planner(pairs: int | None, numbers: int | None) -> Callable[..., list[Plan]]:
    """Return the planner function for a number of pairs, or for a budget of numbers."""
    if pairs is not None and numbers is None:
        return partial(plans, pairs)
    if numbers is not None and pairs is None:
        return partial(plans_within, numbers)
    raise BadValue("Pass either --pairs or --numbers.")


def plan_table(found: list[Plan], title: str) -> Table:
    """Return a table of the plan and its alternatives."""
    columns = {
        "scheme": list(map(plan_text, found)),
        "pairs": [f"{each.pairs:,}" for each in found],
        "accuracy": [f"{each.accuracy:.2%}" for each in found],
        "cells": [f"{each.cells:,}" for each in found],
        "codebook": [f"{each.codebook:,}" for each in found],
        "bytes": [show_bytes(each.bytes) for each in found],
        "per query": [operations_text(each) for each in found],
    }
    if len(set(columns["pairs"])) == 1:
        del columns["pairs"]
    return number_table(f"{title}, best first", columns)


def plan_text(plan: Plan) -> str:
    """Describe the scheme of a plan and its parameters."""
    parameters = ", ".join(
        f"{key}={value}"
        for key, value in plan.parameters.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    kind = f"{' compact' if plan.compact else ''}{' gaussian' if plan.parameters.get('basis') == 'gaussian' else ''}"
    quantized = "" if plan.bits is None else f", {show_bits(plan.bits)} per cell"
    return f"{plan.scheme}{kind} {parameters}{quantized}"


def operations_text(plan: Plan) -> str:
    """Return the operations of a query in millions, as text."""
    return f"{plan.operations / 1e6:,.2f} M operations"


def write_cheaper(plan: Plan) -> None:
    """What was given up for cheaper questions, if anything was."""
    if plan.extreme is None:
        return
    most = plan.extreme
    if most.pairs == plan.pairs:
        given_up = f"The smallest memory is {plan_text(most)} with {most.numbers:,} numbers"
    else:
        given_up = f"The most pairs, {most.pairs:,}, fit in {plan_text(most)}"
    times = most.operations / plan.operations
    write_line(
        f"{given_up}, but a query costs {times:.1f} times as much: {operations_text(most)} instead of "
        f"{operations_text(plan)}. --slack 0 chooses it anyway."
    )


def comparison(alone: Plan, together: Plan) -> str:
    """Two plans beside each other."""
    if alone.pairs == together.pairs:
        gain = f"{alone.numbers / together.numbers:.1f} times smaller"
    else:
        gain = f"{together.pairs / alone.pairs:.1f} times more pairs"
    return (
        f"With joint decoding (about {together.rounds} iterations), {plan_text(together)} holds {together.pairs:,} "
        f"pairs in {together.numbers:,} numbers. With single queries, {plan_text(alone)} holds {alone.pairs:,} in "
        f"{alone.numbers:,}. Joint decoding: {gain}."
    )

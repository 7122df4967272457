"""The same facts in a dictionary, SQLite, a packed table of hashes, compressed text and memories: bytes and time.

    python benchmarks/others.py

So many facts under paths of two roles, each with one of as many words. A question of a memory is one of many that are
asked at once, alone; one that all are asked for together says so. Everybody finds what is asked for; what they say of
paths that hold nothing is told. Dictionary, SQLite and text hold paths and words as well. Prints a table and writes
results/others.json: a minute on two cores.
"""

import argparse
import json
import lzma
import random
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import numpy as np
from measuring import Row, show, write
from rich.console import Console

from carving import OSC, Memory
from carving.quantization import packed

Facts = dict[tuple[str, str], str]
PRINT = 4  # bytes of a path's hash that the table keeps: of 2^32 strangers among n facts, n are taken for known


def facts_of(count: int) -> Facts:
    draw = random.Random(0)
    return {(f"document {i}", "subject"): f"word {draw.randrange(count)}" for i in range(count)}


def timed(run: Callable[[], object], questions: int, runs: int = 5) -> float:
    """Microseconds of a question, the median of some runs."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return 1e6 * statistics.median(taken) / questions


def dictionary(facts: Facts) -> Row:
    tracemalloc.start()
    held = {tuple("".join(list(role)) for role in path): "".join(list(value)) for path, value in facts.items()}
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"what": "dict of Python", "bytes": size, "us": timed(lambda: [held[path] for path in facts], len(facts)),
            "changes": "yes", "strangers": "told"}  # fmt: skip


def text(facts: Facts) -> Row:
    size = len(lzma.compress(json.dumps([[*path, value] for path, value in facts.items()]).encode()))
    return {"what": "JSON, compressed by xz", "bytes": size, "us": None, "changes": "no", "strangers": "told"}


def database(facts: Facts, folder: Path) -> Row:
    """Words are kept once, and named by their numbers."""
    file, words = folder / "facts.db", {word: i for i, word in enumerate(sorted(set(facts.values())))}
    base = sqlite3.connect(file)
    base.execute("create table words (id integer primary key, word text)")
    base.execute("create table facts (path text primary key, word integer) without rowid")
    base.executemany("insert into words values (?, ?)", ((i, word) for word, i in words.items()))
    base.executemany(
        "insert into facts values (?, ?)", (("/".join(path), words[value]) for path, value in facts.items())
    )
    base.commit()
    base.execute("vacuum")
    query = "select words.word from facts join words on words.id = facts.word where path = ?"

    def ask() -> None:
        for path in facts:
            base.execute(query, ("/".join(path),)).fetchone()

    row = {"what": "SQLite, a file", "bytes": file.stat().st_size, "us": timed(ask, len(facts), 3), "changes": "yes",
           "strangers": "told"}  # fmt: skip
    base.close()
    return row


def hashes(facts: Facts) -> Row:
    """A sorted array of hashes of paths, and beside it the numbers of words in as few bits as they need."""

    def keys(paths: list[tuple[str, str]]) -> np.ndarray:
        digests = (blake2b("/".join(path).encode(), digest_size=PRINT).digest() for path in paths)
        return np.frombuffer(b"".join(digests), dtype=f"<u{PRINT}")

    words = sorted(set(facts.values()))
    place, paths = {word: i for i, word in enumerate(words)}, list(facts)
    known = keys(paths)
    order, bits = np.argsort(known), max(1, (len(words) - 1).bit_length())
    known, numbers = known[order], np.array([place[facts[paths[i]]] for i in order])
    size = known.nbytes + -(-len(numbers) * bits // 8)

    def ask() -> list[str]:
        return [words[i] for i in numbers[np.searchsorted(known, keys(paths))]]

    assert ask() == list(facts.values())
    return {"what": "sorted hashes and packed numbers", "bytes": size, "us": timed(ask, len(facts)), "changes": "no",
            "strangers": f"one in {2 ** (8 * PRINT) // len(facts):,} taken for known"}  # fmt: skip


def retrieval(facts: Facts) -> Row:
    """By its formula: 1.01 log2 of the words."""
    size = 1.01 * np.log2(len(facts)) * len(facts) / 8
    return {"what": "static retrieval structure, by its formula", "bytes": round(size), "us": None, "changes": "no",
            "strangers": "answered with rubbish"}  # fmt: skip


def memory(facts: Facts) -> Row:
    """The planner's, for single questions."""
    held = Memory.for_pairs(facts.items(), accuracy=0.99)
    held.store(facts.items())
    assert held.verify(facts.items()).accuracy > 0.98
    return {"what": "memory, asked alone, 99 %", "bytes": held.tensor.nbytes, "us": asked(held, facts),
            "changes": "yes", "strangers": "told, with a probability"}  # fmt: skip


def quantized(facts: Facts) -> Row:
    """Two bits a cell, and everything asked together."""
    side = round((6.4 * len(facts) * np.log2(len(facts)) / np.log2(1000)) ** 0.5 * 1.01)
    held = Memory(OSC(side, 2, 8, compact=True, spread=0.6))
    held.store(facts.items())
    few = held.quantize(bits=2)
    found = []

    def ask() -> None:
        found[:] = few.decode(list(facts), prior_empty=0.0)

    us = timed(ask, len(facts), 1)
    right = sum(answer.value == value for answer, value in zip(found, facts.values(), strict=True)) / len(facts)
    return {"what": f"quantized memory, decoded jointly, {right:.2%} right", "bytes": len(packed(few.cells.codes, 2)),
            "us": us, "changes": "after decoding", "strangers": "told, with a probability"}  # fmt: skip


def asked(held: Memory, facts: Facts) -> float:
    paths = list(facts)[:2000]
    return timed(lambda: held.recall_many(paths), len(paths), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=int, nargs="*", default=[1_000, 10_000])
    found, console = {}, Console()
    for count in parser.parse_args().facts:
        facts = facts_of(count)
        with tempfile.TemporaryDirectory() as folder:
            rows = [dictionary(facts), database(facts, Path(folder)), text(facts), hashes(facts), retrieval(facts),
                    memory(facts), quantized(facts)]  # fmt: skip
        for row in rows:
            row["bits a fact"] = 8 * row["bytes"] / count
        show(console, f"{count:,} facts of {len(set(facts.values())):,} words; microseconds of a question", rows)
        found[str(count)] = rows
    write("others.json", {"facts": found})


if __name__ == "__main__":
    main()

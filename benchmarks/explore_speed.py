"""How fast the explorer answers: every question of its JSON interface to memories of 100 MB and 10,000 values.

`python benchmarks/explore_speed.py`: two minutes, 1.5 GB.
"""

import json
import time

import torch

from carving import OSC, Memory
from carving.explore import MemoryDocument
from carving.explore.params import Params
from carving.explore.routes import ROUTES
from carving.explore.sessions import SessionStore

VALUES, TIMES = 10_000, 5
QUESTIONS = {
    "ask": ("GET", "ask", dict(path="key 55 / of")),
    "best five": ("GET", "ask", dict(path="key 55 / of", kind="top")),
    "set": ("GET", "ask", dict(path="key 55 / of", kind="set")),
    "one value": ("GET", "ask", dict(path="key 55 / of", kind="value", value="value 55")),
    "overview": ("GET", "overview", {}),
    "load": ("GET", "load", {}),
    "cells": ("GET", "cells", {}),
    "histogram": ("GET", "histogram", {}),
    "paths": ("GET", "paths", dict(text="key 55")),
    "store": ("POST", "store", dict(path="new / pair", value="value 55")),
}


def timed(sessions, session, method, name, values):
    """The processor and wall milliseconds of a question, its JSON included."""
    cpu, wall = time.process_time(), time.perf_counter()
    json.dumps(ROUTES[method, name](sessions, Params({"session": session} | values)))
    return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)


def main():
    torch.set_num_threads(1)
    for scheme in (OSC(d=5000, p=2, compact=True), OSC(d=5000, p=2), OSC(d=292, p=3, compact=True)):
        memory = Memory(scheme, keep_paths=True)
        memory.store([((f"key {i}", "of"), f"value {i}") for i in range(VALUES)])
        sessions = SessionStore(MemoryDocument(memory, "large"))
        session = sessions.open()
        print(f"\n{scheme}: {memory.tensor.nbytes / 1e6:.0f} MB")
        for words, question in QUESTIONS.items():
            first, *others = (timed(sessions, session, *question) for _ in range(TIMES + 1))
            cpu, wall = (sorted(each)[TIMES // 2] for each in zip(*others, strict=True))
            print(f"{words:12}{cpu:8.1f} ms of processor{wall:8.1f} ms on the clock, {first[1]:8.1f} the first time")


if __name__ == "__main__":
    main()

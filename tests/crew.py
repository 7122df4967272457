"""Processes that need not import torch anew, for tests of the group "ranks".

A crew of three stays for a whole module of tests: each test runs functions in two or three of them, as ranks.
"""

import multiprocessing
from contextlib import contextmanager, suppress
from datetime import timedelta

CONTEXT = multiprocessing.get_context("forkserver")  # torch is imported once, whatever the number of processes
CONTEXT.set_forkserver_preload(["carving.cli", "pytest", "torch.distributed", "typer.testing"])


def started(function, *given):
    """A process of its own that runs a function."""
    process = CONTEXT.Process(target=function, args=given, daemon=True)
    process.start()
    return process


class Failed(Exception):
    """What a function raised in a rank: its kind and its message."""


def _serve(rank, size, store, pipe, timeout):
    import torch
    from torch import distributed as dist

    from carving.distributed import Ranks

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )
    groups = {
        count: dist.new_group(list(range(count)), timeout=timedelta(seconds=timeout)) for count in range(2, size + 1)
    }
    while (task := pipe.recv()) is not None:
        function, given, count = task
        try:
            pipe.send((True, function(Ranks(groups[count]), *given)))
        except Exception as error:
            pipe.send((False, (type(error).__name__, str(error))))


class Crew:
    """Processes that wait for functions."""

    def __init__(self, folder, size=3, timeout=300.0):
        self.pipes, self.processes, self.size = [], [], size
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe()
            arguments = (rank, size, str(folder / "store"), theirs, timeout)
            process = CONTEXT.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def send(self, function, *given, ranks=3):
        for pipe in self.pipes[:ranks]:
            pipe.send((function, given, ranks))

    def outcome(self, rank, patience=300.0):
        """What a rank gave, or the kind and the words of its error."""
        assert self.pipes[rank].poll(patience), f"rank {rank} says nothing"
        return self.pipes[rank].recv()

    def __call__(self, function, *given, ranks=3):
        """What a function, called as function(ranks, *given), gives in each of so many ranks."""
        self.send(function, *given, ranks=ranks)
        outcomes = [self.outcome(rank) for rank in range(ranks)]
        for done, result in outcomes:
            if not done:
                raise Failed(*result)
        return [result for _, result in outcomes]

    def errors(self, function, *given, ranks=3):
        """The kinds and messages of the errors that a function raises, in all of the ranks."""
        self.send(function, *given, ranks=ranks)
        outcomes = [self.outcome(rank) for rank in range(ranks)]
        assert not any(done for done, _ in outcomes), outcomes
        return [error for _, error in outcomes]

    def close(self):
        for pipe in self.pipes:
            with suppress(OSError):  # of one that is gone
                pipe.send(None)
        for process in self.processes:
            process.join(10)
            process.kill()


@contextmanager
def crew_in(folder, **how):
    crew = Crew(folder, **how)
    try:
        yield crew
    finally:
        crew.close()

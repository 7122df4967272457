import os
from functools import lru_cache

import pytest
import torch
from hypothesis import settings

from carving import OSC, SCHEMES, TPR, VSA, make
from carving.planner import monte_carlo

settings.register_profile("patient", deadline=None)  # the first call of a torch function takes long
settings.load_profile("patient")

# Tests plan for hundreds of tasks, one after the other: what was drawn for one is there for the others.
monte_carlo.draw_small_cores = lru_cache(maxsize=64)(monte_carlo.draw_small_cores.__wrapped__)


def pytest_configure(config):
    if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes that share the cores
        torch.set_num_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that tests start
    # Tests fill memories to the brim; those of the warning ask for it.
    config.addinivalue_line("filterwarnings", "ignore::carving.errors.Overfull")


@pytest.hookimpl(trylast=True)  # after xdist
def pytest_collection_modifyitems(items):
    # xdist 3.8 writes a test's group behind its name, where pytest 9.2 does not read it any more (xdist's issue 1386):
    # every group went to all of the processes, test by test, and what a group makes once was made in each of them.
    for item in items:
        if grouped := vars(item).get("_nodeid"):
            item._id = type(item.id).parse(grouped)


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Called by what a group of tests makes in one process: an error where another process has made it, too."""

    def check(name):
        if "PYTEST_XDIST_WORKER" in os.environ:
            (tmp_path_factory.getbasetemp().parent / f"once-{name}").mkdir()

    return check


# Every scheme as it comes, then OSC in its other forms, then the options of the others.
EVERY = [
    *(make(name, d=64) for name in SCHEMES),
    OSC(12, 1),
    OSC(12, 3),
    OSC(7, 4),
    OSC(20, 2, signed=False),
    OSC(12, 3, k1=1),
    OSC(12, 2, carved=3),
    OSC(7, 3, carved=1, seed=5),
    OSC.paper(20),
    OSC(12, 3, basis="gaussian"),
    OSC(12, 2, carved=3, basis="gaussian"),
    TPR(9, depth=2),
    TPR(9, whole_path=True),
    VSA("HRR", 63, unitary=True),
    VSA("FHRR", 64, accounting="coordinates"),
    *(VSA(name, 64, memory="raw") for name in ("MAP-B", "MAP-C", "BSC", "BSDC-S", "BSDC-CDT", "BSDC-SEG", "CGR")),
    VSA("BSDC-SEG", 64, bundling="mode"),
    VSA("MBAT", 63, form="rolled"),
    VSA("MBAT", 64, form="dense"),
    VSA("CGR", 64, r=5),
    VSA("CGR", 64, r=2),
    VSA("GHRR", 64, m=1),
    VSA("CGR", 64, bundling="mode"),
    VSA("HLB", 64, sigma=0.0),
    VSA("GHRR", 72, m=3),
]


def short_name(scheme):
    """A short name for a test."""
    known = {k: v for k, v in scheme.parameters.items() if k not in ("seed", "name")}
    plain = {"accounting": "real", "memory": "native", "signed": True, "whole_path": False, "basis": "blocks"}
    shown = [f"{k}={v}" for k, v in known.items() if plain.get(k) != v and v is not None]
    return "-".join([getattr(scheme, "name", type(scheme).__name__), *shown])


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=EVERY, ids=short_name)
def scheme(request):
    return request.param


@pytest.fixture
def double(scheme):
    """The same scheme in float64, for comparisons to the last digits."""
    return scheme.like(dtype=torch.float64)


@pytest.fixture
def path():
    """A path that a scheme takes, by its number: two roles, or as many as a TPR wants."""

    def make_path(scheme, number):
        return ("place", number)[-getattr(scheme, "depth", 2) :]

    return make_path


@pytest.fixture
def recalled():
    """The share of pairs whose filler a scheme finds among all of them, and of those it prefers to a wrong one."""

    def ask(scheme, pairs, seeds):
        found = preferred = 0.0
        numbers = torch.arange(pairs)
        for seed in range(seeds):
            own = scheme.like(seed=seed)
            fillers, paths = own.fillers(range(pairs)), [(i,) for i in range(pairs)]
            scores = own.score(own.trace(paths, fillers), paths, fillers)
            ahead = scores[numbers, numbers] - scores[numbers, numbers.roll(1)]
            found += scores.argmax(1).eq(numbers).sum().item()
            preferred += ahead.gt(0).sum().item() + ahead.eq(0).sum().item() / 2
        return found / (seeds * pairs), preferred / (seeds * pairs), seeds * pairs

    return ask


@pytest.fixture
def pairs(path):
    """n contexts and n fillers of a scheme, short_name apart by their numbers."""

    def make_pairs(scheme, count):
        return scheme.contexts([path(scheme, i) for i in range(count)]), scheme.fillers(range(count))

    return make_pairs

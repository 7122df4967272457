"""The experiment on Clifford algebra: recovery, capacity, and noise beside OSC's; its settings, and what is claimed."""

import math
import random
from itertools import combinations, product

import torch
from torch import Generator, Tensor

from carving.clifford import Blades, reject, total, wedge
from carving.lab.experiment import Measured, Published, Setting, grid
from carving.lab.measures.noise import pair_noise
from carving.lab.measures.retrieval import accuracy
from carving.schemes import CliffordTPR
from carving.schemes.moments import excess
from carving.schemes.tpr import TPR, RolePaths
from carving.tensors import orthonormal

EXACT = 1e-10  # relative error up to which a filler counts as recovered
BOTH, APART, OWN = "in the complement of all roles", "on disjoint support", "orthogonal to their own roles only"


def algebra(setting: Setting, seed: int) -> Measured:
    """The measure that the setting's `part` names."""
    measures = {"recovery": recovery, "capacity": capacity, "noise": pair_noise, "retrieval": accuracy}
    return measures[setting["part"]](setting, seed)


def recovery(setting: Setting, seed: int) -> Measured:
    """The mean relative error of fillers unbound from a bundle of N, in float64, and the share that is exact."""
    room = "disjoint" if setting["fillers"] == APART else "complement"
    memory = CliffordTPR(setting["n"], setting["depth"], range(setting["roles"]), room, seed=seed, dtype=torch.float64)
    every = list(combinations(memory.roles, memory.depth))
    paths = random.Random(seed).sample(every, setting["N"])
    fillers = memory.fillers(range(setting["N"]))
    if setting["fillers"] == OWN:
        contexts = memory.contexts(paths)
        vectors = torch.randn(fillers.shape, generator=Generator().manual_seed(seed), dtype=torch.float64)
        fillers = torch.nn.functional.normalize(reject(vectors, contexts), dim=-1)
        bound = wedge(contexts, fillers)
        assert isinstance(bound, Blades)
        bundle = total(bound)
    else:
        bundle = memory.bundle(memory.bind(paths, fillers))
    error = errors(memory.unbind(bundle, paths), fillers)
    return {"error": error.mean().item(), "exact": error.le(EXACT).double().mean().item()}


def errors(unbound: Tensor, fillers: Tensor) -> Tensor:
    """The relative error of each filler."""
    return torch.linalg.vector_norm(unbound - fillers, dim=-1) / torch.linalg.vector_norm(fillers, dim=-1)


def best_roles(n: int, depth: int) -> int:
    """The number of roles for which binom(R, depth) (n - R) is largest."""
    return max(range(depth, n), key=lambda roles: math.comb(roles, depth) * (n - roles))


def capacity(setting: Setting, seed: int) -> Measured:
    """How many numbers of fillers come back exactly from a memory that is filled to the last path."""
    n, depth = setting["n"], setting["depth"]
    if setting["scheme"] == "TPR":
        unbound, fillers = full_tpr(n, depth, seed)
        size, free = n ** (depth + 1), n
    else:
        memory = CliffordTPR(n, depth, range(best_roles(n, depth)), seed=seed, dtype=torch.float64)
        paths = list(combinations(memory.roles, depth))
        fillers = memory.fillers(range(len(paths)))
        unbound = memory.unbind(memory.bundle(memory.bind(paths, fillers)), paths)
        size, free = memory.coordinates, n - len(memory.roles)
    exact = int(errors(unbound, fillers).le(EXACT).sum()) * free
    return {"fillers": exact, "coordinates": size, "share": exact / size}


def full_tpr(n: int, depth: int, seed: int) -> tuple[Tensor, Tensor]:
    """What a TPR with n orthonormal roles at each level, and a filler in each of its paths, gives back; the fillers."""
    generator, tpr = Generator().manual_seed(seed), TPR(n, depth, seed=seed, dtype=torch.float64)
    levels = orthonormal(torch.randn(depth, n, n, generator=generator, dtype=torch.float64))
    roles = torch.stack([torch.stack(path) for path in product(*levels.unbind(0))])
    fillers = tpr.random(len(roles), generator)
    contexts = RolePaths(roles, scheme=tpr.fingerprint)
    return tpr.read(tpr.trace(contexts, fillers), contexts), fillers


# Settings


def bundles(n: int, roles: int, counts: list[int]) -> list[Setting]:
    """Pairs at depth 2 in both of the paper's settings, and with fillers that know their own roles only."""
    return grid(part="recovery", fillers=[BOTH, APART, OWN], n=n, depth=2, roles=roles, N=counts)


def filled(scheme: str, *spaces: tuple[int, int]) -> list[Setting]:
    """Memories of these n and depths, filled to the last path."""
    return [{"part": "capacity", "scheme": scheme, "n": n, "depth": depth} for n, depth in spaces]


def peers(part: str, sizes: list[tuple[int, int, int]], **axes: object) -> list[Setting]:
    """OSC and CliffordOSC of p, d and d, with about as many cells: those of OSC name them.

    Both keep the smallest k1 whose cores have the square root of the memory's numbers, and have signed contexts.
    """
    settings = []
    for p, d, wide in sizes:
        k1 = math.ceil(math.sqrt(d))
        settings += grid(part=part, scheme="OSC", signed=True, d=d, p=p, k1=k1, cells=d**p, **axes)
        settings += grid(part=part, scheme="CliffordOSC", d=wide, p=p, cells=d**p, **axes)
    return settings


# What the paper says, and what theory does


def recovered(settings: list[Setting]) -> list[Published]:
    """All fillers are exact, as the appendix proves; section 4.7 asks only that they be orthogonal to "the roles"."""
    why = "fillers must be orthogonal to every role in use, not to their own alone"
    return [Published(setting, "exact", 1.0, source="exact recovery", why=why) for setting in settings]


def stored(settings: list[Setting]) -> list[Published]:
    """As much as TPR, as the appendix has it ("lossless"), and max over R of binom(R, r)(n - R), as it is."""
    numbers = []
    for setting in settings:
        n, depth = setting["n"], setting["depth"]
        roles = best_roles(n, depth)
        why = f"the paths are sets of {roles} roles, and fillers have the {n - roles} dimensions that these leave"
        numbers.append(
            Published(
                where=setting, quantity="fillers", value=n ** (depth + 1), unit=1, source="as TPR, lossless", why=why
            )
        )
        most = math.comb(roles, depth) * (n - roles)
        numbers.append(
            Published(where=setting, quantity="fillers", value=most, unit=1, source="our theory", predicted=True)
        )
    return numbers


def theory(settings: list[Setting]) -> list[Published]:
    """Noise in units of one over the cells: for blades 1, for OSC with the excess of components that share contexts."""
    numbers = []
    for setting in settings:
        where = {key: value for key, value in setting.items() if key != "repeats"}
        d, p = setting["d"], setting["p"]
        osc = setting["scheme"] == "OSC"
        value, cells = (1 + excess(d, p, setting["k1"], "gaussian"), d**p) if osc else (1.0, math.comb(d, p))
        why = {"relative": "exact for p=2 only", "noise": "as `relative`"}
        for quantity, number in (("relative", value), ("noise", value / cells)):
            numbers.append(Published(where, quantity, number, source="our theory", predicted=True, why=why[quantity]))
    return numbers

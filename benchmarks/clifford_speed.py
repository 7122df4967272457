"""Wedge, contraction and unbinding beside kingdon and clifford in small spaces, and alone in large ones.

`make bench` - about two minutes, a third of it clifford's compilation. The rivals take turns in one run, on batches of
1,000 and with one thread each. What counts is the time of that thread on the processor, so that others that use the
machine do not, and freed memory is kept: on a virtual machine, to ask for it again may take longer than to calculate.

kingdon generates code for each pair of grades (`large=False`, without which it takes no batches from n = 7 on) and runs
it on a row for each coordinate, in NumPy and in torch; ours has its numbers in the same order. clifford has no batches
and is called 1,000 times (100 of them are measured). The bound is a copy of the result, which nobody who
writes one can beat. Prints tables (above 1: ours is faster) and writes results/clifford-speed.json.
"""

import ctypes
import math
from collections.abc import Callable

import clifford
import numpy as np
import torch
from kingdon import Algebra
from measuring import Row, medians, show, write
from rich.console import Console
from torch import Tensor

from carving.clifford import Blades, Multivectors, contract, expand, reverse, wedge
from carving.clifford.grades import subsets

BATCH, CALLS = 1_000, 100
ALONE = [(64, 2), (128, 2), (256, 2), (32, 3), (64, 3), (100, 3)]


def unbind(memory: Multivectors, roles: Tensor) -> Tensor:
    """Two roles each, (b, 2, n), contracted onto one memory of grade 3: the fillers (b, n)."""
    return contract(expand(reverse(Blades(roles))), memory).coordinates


def kingdons(n: int, u: Tensor, v: Tensor, w: Tensor, memory: Tensor, rows: Callable[[Tensor], object]) -> dict:
    """kingdon's side of each operation, on rows of one coordinate."""
    algebra = Algebra(n, large=False)
    one, two, three = (algebra.vector(list(rows(x.T.contiguous()))) for x in (u, v, w))
    plane, stored = one ^ two, algebra.multivector(dict(zip(keys(n, 3), memory.tolist(), strict=True)))
    space, turned = plane ^ three, two ^ one
    return {
        "wedge 1^1": lambda: one ^ two,
        "wedge 2^1": lambda: plane ^ three,
        "contract 1 on 2": lambda: one.lc(plane),
        "contract 1 on 3": lambda: one.lc(space),
        "unbind 2 of 3": lambda: two.lc(one.lc(stored)),
        "the same, wedged before": lambda: turned.lc(stored),
    }


def cliffords(n: int, u: Tensor, v: Tensor, w: Tensor, memory: Tensor) -> dict:
    """clifford's side, a call for each multivector; blades of one grade stand together in its arrays of 2^n."""
    layout, _ = clifford.Cl(n)

    def full(rows: Tensor, start: int) -> list:
        values = np.zeros((len(rows), 2**n))
        values[:, start : start + rows.shape[1]] = rows.double().numpy()
        return [layout.MultiVector(value) for value in values]

    one, two, three = (full(x[:CALLS], 1) for x in (u, v, w))
    planes = [a ^ b for a, b in zip(one, two, strict=True)]
    spaces = [a ^ b for a, b in zip(planes, three, strict=True)]
    turned = [b ^ a for a, b in zip(one, two, strict=True)]
    (stored,) = full(memory.unsqueeze(0), 1 + n + math.comb(n, 2))
    return {
        "wedge 1^1": lambda: [a ^ b for a, b in zip(one, two, strict=True)],
        "wedge 2^1": lambda: [a ^ b for a, b in zip(planes, three, strict=True)],
        "contract 1 on 2": lambda: [a << b for a, b in zip(one, planes, strict=True)],
        "contract 1 on 3": lambda: [a << b for a, b in zip(one, spaces, strict=True)],
        "unbind 2 of 3": lambda: [b << (a << stored) for a, b in zip(one, two, strict=True)],
        "the same, wedged before": lambda: [a << stored for a in turned],
    }


def ours(n: int, u: Tensor, v: Tensor, w: Tensor, memory: Tensor) -> dict:
    """Our side, on what our own products give: rows of one coordinate, seen as a batch."""
    u, v, w = (x.T.contiguous().T for x in (u, v, w))
    one, two = Multivectors(u, n, 1), Multivectors(v, n, 1)
    plane, turned, stored = wedge(one, two), wedge(two, one), Multivectors(memory, n, 3)
    roles, space = torch.stack([u, v], dim=1), wedge(plane, w)
    return {
        "wedge 1^1": lambda: wedge(one, two),
        "wedge 2^1": lambda: wedge(plane, w),
        "contract 1 on 2": lambda: contract(u, plane),
        "contract 1 on 3": lambda: contract(u, space),
        "unbind 2 of 3": lambda: unbind(stored, roles),
        "the same, wedged before": lambda: contract(turned, stored),
    }


def keys(n: int, grade: int) -> list[int]:
    """kingdon's names of the coordinates: bits."""
    return [sum(1 << i for i in subset) for subset in subsets(n, grade).tolist()]


def drawn(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three batches of vectors, and a memory of grade 3."""
    generator = torch.Generator().manual_seed(0)
    u, v, w = (torch.randn(BATCH, n, generator=generator, dtype=torch.float64) for _ in range(3))
    return u, v, w, torch.randn(math.comb(n, 3), generator=generator, dtype=torch.float64)


def beside(n: int) -> list[Row]:
    u, v, w, memory = drawn(n)
    sides = {
        "ours": ours(n, u, v, w, memory),
        "kingdon": kingdons(n, u, v, w, memory, lambda x: x.numpy()),
        "kingdon_torch": kingdons(n, u, v, w, memory, lambda x: x),
        "clifford": cliffords(n, u, v, w, memory),
    }
    torch.set_num_threads(1)  # again: clifford's compiler, when it starts, sets it back
    found = []
    for operation in sides["ours"]:
        rivals = {name: side[operation] for name, side in sides.items()}
        answers = {name: run() for name, run in rivals.items()}
        assert_same(n, answers)
        result = coordinates_of(answers["ours"]).contiguous()
        rivals["bound"] = result.clone
        taken = medians(rivals, 1.5)
        taken["clifford"] *= BATCH / CALLS
        row: Row = {"n": n, "operation": operation, "ours_us": taken["ours"] * 1e6}
        for name in ("kingdon", "kingdon_torch", "clifford"):
            row[f"{name}_ratio"] = taken[name] / taken["ours"]
        row["kingdon_bound"] = taken["kingdon"] / taken["bound"]
        found.append(row)
    return found


def coordinates_of(result: Tensor | Multivectors) -> Tensor:
    return result if isinstance(result, Tensor) else result.coordinates


def assert_same(n: int, answers: dict[str, object]) -> None:
    """Every rival computes the same numbers."""
    coordinates = coordinates_of(answers["ours"])
    grade = next(g for g in range(1, 4) if math.comb(n, g) == coordinates.shape[-1])
    for name in ("kingdon", "kingdon_torch"):
        values = dict(answers[name].items())
        theirs = torch.stack([torch.as_tensor(values[key]) for key in keys(n, grade)], dim=-1)
        torch.testing.assert_close(coordinates, theirs, rtol=1e-9, atol=1e-9)
    start = sum(math.comb(n, g) for g in range(grade))
    theirs = np.stack([x.value[start : start + coordinates.shape[-1]] for x in answers["clifford"]])
    np.testing.assert_allclose(coordinates[:CALLS].numpy(), theirs, rtol=1e-9, atol=1e-9)


def alone(n: int, grade: int, batch: int = 100) -> Row:
    """A batch of 100 wedged and contracted, 1,000 questions to one memory, and the room that one multivector takes."""
    generator = torch.Generator().manual_seed(0)
    vectors, roles = torch.randn(batch, n, generator=generator), torch.randn(1_000, grade - 1, n, generator=generator)
    rest = Multivectors(torch.randn(batch, math.comb(n, grade - 1), generator=generator), n, grade - 1)
    whole = wedge(vectors, rest)
    memory = Multivectors(whole.coordinates[0].contiguous(), n, grade)
    asked = expand(reverse(Blades(roles)))
    taken = medians(
        {
            "wedge": lambda: wedge(vectors, rest),
            "contract": lambda: contract(vectors, whole),
            "unbind": lambda: contract(asked, memory),
        },
        2.0,
    )
    blade = Blades(torch.randn(1, grade, n, generator=generator))
    room = largest_rise(lambda: contract(vectors[0], Multivectors(expand(blade).coordinates[0], n, grade)))
    cells = math.comb(n, grade)
    return {
        "n": n,
        "grade": grade,
        "coordinates": cells,
        **{f"{name}_ms": seconds * 1e3 for name, seconds in taken.items()},
        "wedge_ns_per_coordinate": taken["wedge"] * 1e9 / (batch * cells),
        "largest_bytes_per_coordinate": room / cells,
    }


class Live(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes how many bytes of fresh tensors an operation values and makes at a time, at most."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = [x for x in args if isinstance(x, Tensor)]
        results = [x for x in (made if isinstance(made, tuple | list) else [made]) if isinstance(x, Tensor)]
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in (*given, *results)}
        self.most = max(self.most, sum(storages.values()))
        return made


def largest_rise(run: Callable[[], object]) -> int:
    """The bytes of the tensors that any one step of the computation has in its hands, tables of places included."""
    with Live() as watch:
        run()
    return watch.most


def keep_pages() -> None:
    """Tell glibc, where it is the C library, not to give back what is freed."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
        if mallopt is not None:
            mallopt(parameter, 2**30)


def main() -> None:
    console = Console(width=150)
    torch.set_num_threads(1)
    keep_pages()
    with torch.inference_mode():
        rows = []
        for n in (6, 8, 10):
            with console.status(f"beside kingdon and clifford, n = {n}"):
                rows += beside(n)
        show(console, "batches of 1,000 in float64, and the rivals' time over ours", rows)
        with console.status("alone"):
            large = [alone(n, grade) for n, grade in ALONE]
        show(console, "batches of 100 and 1,000 questions to one memory, in float32", large)
    write("clifford-speed.json", {"threads": torch.get_num_threads(), "beside": rows, "alone": large})


if __name__ == "__main__":
    main()

"""How often a resonator finds all factors of a bound vector."""

import torch
from torch import Generator

from carving.lab.experiment import Measured, Setting
from carving.schemes.vsa import VSA
from carving.structures import factorize

# fmt: off
#    way, factors, d, and the size of a codebook at which 99 % are found
CAPACITY = (
    ("linear", 2, 1000, 340), ("linear", 2, 2000, 828),
    ("linear", 3, 1500, 79), ("linear", 3, 1750, 104), ("linear", 3, 2000, 128), ("linear", 3, 2250, 150),
    ("linear", 4, 2000, 41), ("linear", 4, 2500, 49),
    ("least squares", 3, 1500, 99), ("least squares", 3, 1750, 122),
)
LINEAR: Setting = {"scheme": "MAP-I", "way": "linear"}  # what most of it is of
SPARSE = ((27, 0.998), (45, 0.994), (76, 0.993), (99, 0.999))  # m of three codebooks, and the share found
# fmt: on


def asked(way: str, count: int, d: int, m: int, questions: int, scheme: str = "MAP-I", share: float = 1.0) -> Setting:
    """A setting; rounds as published: m^F / 1000, in the sparse way m^(F-1) / F."""
    size = round(m * share)
    rounds = size ** (count - 1) // count if way == "sparse" else round(size**count / 1000)
    kind = f"{scheme}, {way}, {count} factors, d={d}"
    return {"kind": kind, "scheme": scheme, "way": way, "factors": count, "d": d, "m": size, "share": share,
            "rounds": max(10, rounds), "questions": questions}  # fmt: skip


def factors(setting: Setting, seed: int) -> Measured:
    """The share of products, one vector of each of `factors` codebooks of `m`, of which every factor is found.

    >>> easy = {"scheme": "MAP-I", "d": 512, "way": "linear", "factors": 2, "m": 5, "rounds": 20, "questions": 8}
    >>> factors(easy, 0)["retrieval"]
    1.0
    """
    generator = Generator().manual_seed(seed)
    unitary = True if setting["scheme"] == "HRR" else None
    vsa = VSA(setting["scheme"], setting["d"], seed=seed % 2**32, unitary=unitary)
    books = [vsa.random(setting["m"], generator) for _ in range(setting["factors"])]
    which = torch.randint(setting["m"], (setting["questions"], len(books)), generator=generator)
    bound = vsa.multibind(torch.stack([book[which[:, place]] for place, book in enumerate(books)], 1))
    with torch.inference_mode():
        found = factorize(
            vsa, bound, books, rounds=setting["rounds"], activation=setting["way"], generator=generator
        ).found
    right = found.eq(which).all(1)
    return {"retrieval": right.double().mean().item(), "questions": len(which)}

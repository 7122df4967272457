"""How often a resonator finds all factors of a bound vector."""

import torch
from torch import Generator

from carving.lab.experiment import Measured, Setting
from carving.schemes.vsa import VSA
from carving.structures import factorise


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
        found = factorise(
            vsa, bound, books, rounds=setting["rounds"], activation=setting["way"], generator=generator
        ).found
    right = found.eq(which).all(1)
    return {"retrieval": right.double().mean().item(), "questions": len(which)}

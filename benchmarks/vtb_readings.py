"""VTB heads read in several ways, on the data sets of a folder: nDCG@5 and PSnDCG@5 of each, one line a seed.

    python benchmarks/vtb_readings.py FOLDER [--seeds N] [--datasets Bibtex Delicious]

The published code of HLB draws the two roles as Gaussian squares, and defines a sampler of orthogonal ones that it does
not use. Which of the two made the published numbers it does not say.
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from carving.lab.measures.datasets import parts
from carving.lab.measures.labels import head_of, setting_of, settings_of
from carving.multilabel import metrics
from carving.multilabel.training import make_network, predict, train
from carving.multilabel.vectors import VectorHead

Change = Callable[[VectorHead], None]


def orthogonal(vectors: Tensor) -> Tensor:
    """Each vector's square replaced by the orthogonal matrix of its QR, as the unused sampler makes it."""
    side = math.isqrt(vectors.shape[-1])
    return torch.linalg.qr(vectors.view(-1, side, side)).Q.flatten(-2).contiguous()


def as_published(head: VectorHead) -> None:
    """Gaussian roles and labels."""


def orthogonal_roles(head: VectorHead) -> None:
    """Orthogonal roles, Gaussian labels."""
    head.role_vectors = orthogonal(head.role_vectors)


def all_orthogonal(head: VectorHead) -> None:
    """Roles and labels are orthogonal squares."""
    orthogonal_roles(head)
    assert head.vectors is not None
    head.vectors = orthogonal(head.vectors)


def transposed(head: VectorHead) -> None:
    """Binding in the place of unbinding: the roles' squares transposed."""
    side = math.isqrt(head.width)
    head.role_vectors = head.role_vectors.view(-1, side, side).mT.flatten(-2).contiguous()


def no_role(head: VectorHead) -> None:
    """The role is the identity: how well the labels' vectors do by themselves."""
    side = math.isqrt(head.width)
    head.role_vectors = torch.eye(side).flatten().expand(len(head.roles), -1).contiguous()


# fmt: off
#    name                       what is changed    the setting            the training
READINGS: dict[str, tuple[Change, dict[str, object], dict[str, object]]] = {
    "as the code stands":      (as_published,      {},                    {}),
    "transposed":              (transposed,        {},                    {}),
    "no missing term":         (as_published,      {"missing": False},    {}),
    "trained vectors":         (as_published,      {"trainable": True, "missing": False}, {}),
    "no decay of the rate":    (as_published,      {"gamma": 1.0},        {}),
    "three times the rate":    (as_published,      {},                    {"rate": 3e-3}),
    "rows of one length":      (as_published,      {},                    {"normalize": "rows"}),
    "orthogonal roles":        (orthogonal_roles,  {},                    {}),
    "all orthogonal":          (all_orthogonal,    {},                    {}),
    "all orthogonal, no missing": (all_orthogonal, {"missing": False},    {}),
    "no role":                 (no_role,           {"missing": False},    {}),
}
# fmt: on


def measured(folder: Path, name: str, variant: str, reading: str, seed: int) -> dict[str, object]:
    """The test part after training by one reading."""
    change, changes, training = READINGS[reading]
    setting = setting_of(name, "VTB", variant) | changes
    whole, test = parts(folder, name, 1)
    data = whole.labeled()
    head, settings = head_of(setting, data.labels.shape[1], seed), replace(settings_of(setting), **training)
    assert isinstance(head, VectorHead)
    change(head)
    network = make_network(data, head, settings, seed)
    train(network, head, data, settings, seed=seed)
    found = metrics.measures(
        predict(network, head, test.features, 5)[1].numpy(), test.labels, metrics.propensities(whole.labels)
    )
    facts = dict(dataset=name, variant=variant, reading=reading, seed=seed)
    return facts | {quantity: round(100 * found[quantity], 2) for quantity in ("nDCG@5", "PSnDCG@5")}


def main() -> None:
    """Print a line of JSON for every reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--datasets", nargs="+", default=["Bibtex", "Delicious"])
    parser.add_argument("--variants", nargs="+", default=["paper", "code"])
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    wanted = parser.parse_args()
    for name in wanted.datasets:
        for variant in wanted.variants:
            for reading in wanted.readings:
                for seed in range(wanted.seeds):
                    print(json.dumps(measured(wanted.folder, name, variant, reading, seed)), flush=True)


if __name__ == "__main__":
    main()

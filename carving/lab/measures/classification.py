"""How well centroids tell digits apart, ours and, where torch-hd is installed, torch-hd's beside them.

The same split, the same number of real numbers a vector, the same levels: torch-hd encodes with its own embeddings and
adds up its own `Centroid`. What it does not have for an architecture is left out.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.hdc.centroids import CentroidClassifier
from carving.hdc.encoders import scheme_of
from carving.lab.experiment import Measured, Setting
from carving.optional import load

LEVELS, BATCH = 33, 64
THEIRS = {"MAP-B": "MAP", "BSC": "BSC", "HRR": "HRR", "FHRR": "FHRR", "VTB": "VTB"}  # whose level encoding both have
WITHOUT = {"thermometer": {"HRR", "VTB"}}  # what torch-hd refuses
ARRAYS = ("projection", "sinusoid")  # that torch-hd has as plain numbers: for MAP

Points = NDArray[np.float64]


def classification(setting: Setting, seed: int) -> Measured:
    """The share of test digits named by centroids alone and refined, and by torch-hd's centroids of the same kind.

    >>> setting = {"scheme": "MAP-B", "d": 256, "encoding": "level", "refinement": "margin"}
    >>> measured = classification(setting, 0)
    >>> measured["centroids"] > 0.6 and measured["refined"] > measured["centroids"]
    True
    """
    points, names = load("sklearn.datasets").load_digits(return_X_y=True)
    split = load("sklearn.model_selection").train_test_split
    parts = split(points, names, test_size=0.4, random_state=seed % 2**32, stratify=names)
    scheme = scheme_of(setting["scheme"], setting["d"], seed % 2**32)
    x, test, y, truth = parts

    def right(refinement: str | None) -> float:
        model = CentroidClassifier(scheme, encoding=setting["encoding"], refinement=refinement, levels=LEVELS)
        return float((model.fit(x, y).predict(test) == truth).mean())

    measured = {"centroids": right(None), "refined": right(setting["refinement"]), "questions": len(test)}
    theirs = torch_hd(setting, parts, seed)
    return measured if theirs is None else measured | {"torch-hd": theirs}


def torch_hd(setting: Setting, parts: tuple[Any, ...], seed: int) -> float | None:
    """The share that torch-hd names; None where it is not installed or does not have the like."""
    kind, encoding = THEIRS.get(setting["scheme"]), setting["encoding"]
    lacks = kind in WITHOUT.get(encoding, ()) or (encoding in ARRAYS and kind != "MAP")
    if kind is None or lacks or find_spec("torchhd") is None:
        return None
    hd, (x, test, y, truth) = import_module("torchhd"), parts
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # it draws from the global state
        torch.manual_seed(seed)
        encode = their_encoder(hd, kind, encoding, x, setting["d"])
        model = hd.models.Centroid(encode(x[:2]).shape[1], len(np.unique(y)))
        for rows in np.array_split(np.arange(len(x)), len(x) // BATCH):
            model.add(encode(x[rows]), torch.from_numpy(y[rows]))
        found = [model(encode(part)).argmax(1) for part in np.array_split(test, len(test) // BATCH)]
    return float((torch.cat(found).numpy() == truth).mean())


def their_encoder(hd: Any, kind: str, encoding: str, x: Points, d: int) -> Any:
    """What makes points its vectors, as real numbers."""
    size, features = d // 2 if kind == "FHRR" else d, x.shape[1]
    low, width = x.min(0), np.maximum(np.ptp(x, 0), 1e-12)
    mean, deviation = x.mean(0), np.maximum(x.std(0), 1e-12)
    if encoding in ARRAYS:
        code = (hd.embeddings.Projection if encoding == "projection" else hd.embeddings.Sinusoid)(features, size)
        return lambda points: plain(code(torch.from_numpy((points - mean) / deviation).float()).sign())
    numbers = hd.embeddings.Level if encoding == "level" else hd.embeddings.Thermometer
    levels = numbers(LEVELS, size, kind, low=0, high=1)(torch.linspace(0, 1, LEVELS))
    keys, each = hd.random(features, size, kind), torch.arange(features)
    # Every level of every feature is bound once: of all points at a time its VTB takes gigabytes, its HRR minutes.
    bound = torch.stack([hd.bind(key.expand_as(levels), levels).as_subclass(Tensor) for key in keys])

    def encode(points: Points) -> Tensor:
        shares = torch.from_numpy(((points - low) / width).clip(0, 1)).float()
        made = hd.multiset(bound[each, hd.value_to_index(shares, 0, 1, LEVELS)].as_subclass(type(keys)))
        return plain(made.sign() if kind == "MAP" else made)

    return encode


def plain(made: Tensor) -> Tensor:
    """Vectors of torch-hd as real numbers."""
    made = made.as_subclass(Tensor)
    if made.dtype == torch.bool:
        return 2.0 * made - 1
    return torch.view_as_real(made).flatten(1) if made.is_complex() else made

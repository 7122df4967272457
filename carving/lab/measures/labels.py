"""What the multi-label experiment measures: a network and a head, trained on one part of a data set, tested on another.

Data sets lie in a folder, under the names that the Extreme Classification Repository, MULAN or the code of HLB give
them: bibtex_train.txt.xz, bibtex-train.arff, Eurlex/eurlex_train.txt, Bibtex/Bibtex_data.txt with its split files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from scipy.sparse import csr_matrix

from carving.errors import BadValue
from carving.formats import COMPRESSIONS
from carving.lab.experiment import Experiment, Measured, Setting, Trials
from carving.lab.runner import Row
from carving.labels import metrics
from carving.labels.data import Dataset, read
from carving.labels.heads import Head, OSCHead
from carving.labels.training import Settings, make_network, predict, train
from carving.labels.vectors import VectorHead

REPOSITORY = "the Extreme Classification Repository, http://manikvarma.org/downloads/XC/XMLRepository.html"

# What files of a data set begin with, or the folder that they lie in, in small letters
STEMS = {
    "Bibtex": ("bibtex",),
    "Mediamill": ("mediamill",),
    "Delicious": ("delicious",),
    "Eurlex-4K": ("eurlex", "eurlex-4k", "eurlex4k"),
    "Eurlex-4.3K": ("eurlex-4.3k",),
    "Wiki10-31K": ("wiki10-31k", "wiki10"),
    "Amazon-13K": ("amazoncat-13k", "amazoncat-13k.bow", "amazoncat", "amazon-13k"),
    "Delicious-200K": ("deliciouslarge", "delicious-200k", "delicious200k"),
}
HEADS = ("VTB", "MAP", "HLB", "OSC")
# fmt: off
#                  paper: epochs, batch; HLB's code  hidden  e  drop  width  gamma  scale   d   pool
HYPER = {
    "Bibtex":         ((10, 64),   (25, 64),   512,  1, 0.0,  400,  0.8,  0.25, 125, 1),
    "Delicious":      ((10, 64),   (25, 256),  512,  1, 0.25, 400,  0.8,  0.5,  125, 1),
    "Mediamill":      ((10, 64),   (50, 64),   512,  1, 0.0,  400,  1.0,  1.0,  125, 1),
    "Eurlex-4K":      ((10, 256),  (25, 64),   512,  2, 0.35, 1600, 0.85, 0.5,  200, 1),
    "Eurlex-4.3K":    ((25, 256),  (25, 64),   512,  1, 0.0,  400,  0.98, 1.0,  100, 1),
    "Wiki10-31K":     ((25, 16),   (25, 64),   512,  1, 0.25, 3000, 0.98, 0.5,  300, 1),
    "Amazon-13K":     ((25, 1024), (25, 64),   512,  1, 0.25, 3000, 0.98, 0.5,  300, 7),
    "Delicious-200K": ((25, 8),    (25, 64),   1024, 1, 0.25, 3000, 0.98, 0.5,  300, 7),
    "synthetic":      ((6, 16),    (8, 16),    64,   1, 0.0,  64,   0.9,  1.0,  24,  1),
}
# fmt: on
GAMMA = {("Mediamill", "VTB"): 0.98, ("Eurlex-4K", "VTB"): 0.98}  # the paper tells none: the code's in both
CODE: dict[tuple[str, str], Setting] = {  # where the code goes its own ways, beside epochs and batches
    **{("Bibtex", head): {"trainable": True, "missing": False} for head in ("HLB", "MAP")},
    **{("Eurlex-4K", head): {"width": 1500} for head in ("HLB", "MAP")},
    **{("Amazon-13K", head): {"missing": False} for head in HEADS},
    ("Bibtex", "VTB"): {"drop": 0.25},
    ("Delicious", "VTB"): {"batch": 64},
}
PAIRS = ("{0}_{1}.txt", "{0}-{1}.txt", "{0}_{1}.arff", "{0}-{1}.arff", "{0}/{1}.txt", "{0}/{0}_{1}.txt")
WHOLES = ("{0}_{1}.txt", "{0}/{0}_{1}.txt")
SYNTHETIC = "synthetic"

Part = tuple[Path, Path | None]  # a file, and the split file that names its rows


def found(folder: Path, name: str) -> tuple[Part, Part] | None:
    """The files of a data set's training and test parts, if they are there."""
    files = {_plain(file.relative_to(folder)): file for depth in ("*", "*/*") for file in sorted(folder.glob(depth))}
    for stem in STEMS[name]:
        for pattern in PAIRS:
            one, other = (files.get(pattern.format(stem, part)) for part in ("train", "test"))
            if one and other:
                return (one, None), (other, None)
        for pattern in WHOLES:
            whole, one, other = (files.get(pattern.format(stem, part)) for part in ("data", "trsplit", "tstsplit"))
            if whole and one and other:
                return (whole, one), (whole, other)
    return None


def _plain(file: Path) -> str:
    """A file's name as it is looked for: small letters, without the ending of its compression."""
    return (file.with_suffix("") if file.suffix in COMPRESSIONS else file).as_posix().lower()


@lru_cache(maxsize=1)
def parts(folder: Path | None, name: str, pool: int) -> tuple[Dataset, Dataset]:
    """Training part and test part; kept, since trials of one set often follow."""
    if name == SYNTHETIC:
        return synthetic(240), synthetic(100, first=240)
    files = None if folder is None else found(folder, name)
    if files is None:
        raise FileNotFoundError(f"there is no {name} in {folder}; get it at {REPOSITORY}")
    one, other = (read(file, split=split) for file, split in files)
    if one.labels.shape[1] != other.labels.shape[1] or one.features.shape[1] != other.features.shape[1]:
        raise BadValue(f"{files[0][0]} and {files[1][0]} have other features or labels: do they belong together?")
    return (one.pooled(pool), other.pooled(pool)) if pool > 1 else (one, other)


def synthetic(points: int, first: int = 0, known: int = 40, wide: int = 60) -> Dataset:
    """Points whose labels each bring some features along: points first, first + 1, ... of an endless set."""
    owned = np.random.default_rng(0).random((known, wide)) < 0.1
    features, labels = [], []
    for number in range(first, first + points):
        random = np.random.default_rng([1, number])
        own = random.choice(known, size=random.integers(1, 4), replace=False)
        features.append(owned[own].any(axis=0) & (random.random(wide) < 0.8) | (random.random(wide) < 0.02))
        labels.append(np.isin(np.arange(known), own))
    return Dataset(csr_matrix(np.array(features)), csr_matrix(np.array(labels)), SYNTHETIC)


@dataclass(frozen=True)
class FromFiles:
    """A measure over data sets of a folder; a row depends on its setting, its seed and the files."""

    folder: Path | None = None

    def __call__(self, setting: Setting, seed: int) -> Measured:
        """Quality on the test part after training with the setting's head and hyper-parameters, shares of 1."""
        torch_seed = seed % 2**63
        with torch.inference_mode(False):
            whole, test = parts(self.folder, setting["dataset"], setting.get("pool", 1))
            data = whole.labelled()
            head, settings = head_of(setting, data.labels.shape[1], seed), settings_of(setting)
            network = make_network(data, head, settings, torch_seed)
            train(network, head, data, settings, seed=torch_seed)
            ranked = predict(network, head, test.features, 5)[1].numpy()
        propensities = metrics.propensities(whole.labels)
        batched = metrics.measures(ranked, test.labels, propensities, (5,), batch=settings.batch)
        return metrics.measures(ranked, test.labels, propensities) | {
            "nDCG@5 by batch": batched["nDCG@5"],
            "PSnDCG@5 by batch": batched["PSnDCG@5"],
            "unlabelled": int((test.labels.getnnz(axis=1) == 0).sum()),
            "parameters": sum(p.numel() for module in (network, head) for p in module.parameters()),
        }

    def has(self, name: str) -> bool:
        """Whether a data set is there."""
        return name == SYNTHETIC or (self.folder is not None and found(self.folder, name) is not None)


def head_of(setting: Setting, labels: int, seed: int) -> Head:
    """The head of a setting, its vectors drawn from the seed."""
    common = dict(missing=setting["missing"], trainable=setting["trainable"], seed=seed)
    if setting["head"].startswith("OSC"):
        return OSCHead(labels, setting["d"], preset=setting["preset"], **common)
    return VectorHead(setting["head"], labels, setting["width"], scale=setting.get("scale", 1.0), **common)


def setting_of(name: str, head: str, variant: str, preset: str = "third") -> Setting:
    """What the paper says of a head on a data set, or the code of HLB, which fills what the paper leaves open."""
    paper, code, hidden, expansion, drop, width, gamma, scale, d, pool = HYPER[name]
    epochs, batch = paper if variant == "paper" else code
    own = dict(d=d, preset=preset) if head.startswith("OSC") else dict(width=width)
    return (
        dict(dataset=name, head=head, variant=variant, pool=pool, hidden=hidden, expansion=expansion, drop=drop)
        | dict(epochs=epochs, batch=batch, gamma=GAMMA.get((name, head), gamma), missing=True, trainable=False)
        | (own | dict(scale=scale) if head == "HLB" else own)
        | (CODE.get((name, head), {}) if variant == "code" else {})
    )


def settings_of(setting: Setting) -> Settings:
    """How the setting's network is made and trained."""
    keys = ("hidden", "expansion", "drop", "epochs", "batch", "gamma")
    return Settings(**{key: setting[key] for key in keys})


# What the lab does with data sets that are there, and with those that are not


def at_hand(experiment: Experiment, scale: str, folder: Path | None, console: Console) -> Experiment:
    """The experiment over the data sets that the folder has, of one scale; it may be left without any trial."""
    if not isinstance(experiment.measure, FromFiles):
        return experiment
    if folder is not None and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder; --data wants the one that holds the data sets")
    measure = FromFiles(None if folder is None else folder.resolve())
    settings = (s for part in experiment.scales[scale] for s in part.settings)
    missing = [name for name in _names(settings) if not measure.has(name)]
    if missing:
        where = "no --data was given" if folder is None else f"{folder} does not have them"
        console.print(f"{experiment.name}: skipped {', '.join(missing)}; {where}. {get(missing)}", markup=False)
    return replace(_without(experiment, scale, missing), measure=measure)


def with_missing(experiment: Experiment, scale: str, rows: Sequence[Row]) -> Experiment:
    """The experiment with a note on the data sets that have no rows yet."""
    if not isinstance(experiment.measure, FromFiles):
        return experiment
    ran = {row["setting"]["dataset"] for row in rows}
    missing = _names(s for part in experiment.scales[scale] for s in part.settings if s["dataset"] not in ran)
    if not missing:
        return experiment
    notes = f"{experiment.notes} Missing: {', '.join(missing)}. {get(missing)}"
    return replace(_without(experiment, scale, missing), notes=notes)


def _without(experiment: Experiment, scale: str, missing: Sequence[str]) -> Experiment:
    parts = experiment.scales[scale]
    kept = tuple(Trials(p.count, tuple(s for s in p.settings if s["dataset"] not in missing)) for p in parts)
    return replace(experiment, scales={**experiment.scales, scale: kept})


def get(names: Sequence[str]) -> str:
    """Where data sets come from, and how their files are to be called."""
    files = ", ".join(f"{STEMS[name][0]}_train.txt and {STEMS[name][0]}_test.txt" for name in names)
    return f"Get them at {REPOSITORY}, and put them into the folder of --data as {files} (or .xz, .gz, .bz2)."


def _names(settings: Iterable[Setting]) -> list[str]:
    return list(dict.fromkeys(setting["dataset"] for setting in settings))

"""Data sets for multi-label learning, in a folder or made up.

They lie there under the names that the Extreme Classification Repository, MULAN or the code of HLB give them:
bibtex_train.txt.xz, bibtex-train.arff, Eurlex/eurlex_train.txt, Bibtex/Bibtex_data.txt with its split files.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from carving.errors import BadValue
from carving.formats import COMPRESSIONS
from carving.multilabel.data import Dataset, read
from carving.optional import load

REPOSITORY = "the Extreme Classification Repository, http://manikvarma.org/downloads/XC/XMLRepository.html"
SYNTHETIC = "synthetic"

# What files of a data set begin with, or the folder that they lie in, in small letters
STEMS = {
    "Bibtex": ("bibtex",),
    "Mediamill": ("mediamill",),
    "Delicious": ("delicious",),
    "Eurlex-4K": ("eurlex", "eurlex-4k", "eurlex4k"),
    "Eurlex-4.3K": ("eurlex-4.3k",),
    "Eurlex-20K": ("eurlex-20k",),  # points: a part of the one above
    "Wiki10-31K": ("wiki10-31k", "wiki10"),
    "Amazon-13K": ("amazoncat-13k", "amazoncat-13k.bow", "amazoncat", "amazon-13k"),
    "Delicious-200K": ("deliciouslarge", "delicious-200k", "delicious200k"),
}
PAIRS = ("{0}_{1}.txt", "{0}-{1}.txt", "{0}_{1}.arff", "{0}-{1}.arff", "{0}/{1}.txt", "{0}/{0}_{1}.txt")
WHOLES = ("{0}_{1}.txt", "{0}/{0}_{1}.txt")

Part = tuple[Path, Path | None]  # a file, and the split file that names its rows


def dataset_files(folder: Path, name: str) -> tuple[Part, Part] | None:
    """The files of a data set's training and test parts, if they are there."""
    files = {_plain(file.relative_to(folder)): file for depth in ("*", "*/*") for file in sorted(folder.glob(depth))}
    for stem in STEMS[name]:
        parts = _pair(files, stem) or _whole(files, stem)
        if parts:
            return parts
    return None


def _plain(file: Path) -> str:
    """A file's name as it is looked for: small letters, without the ending of its compression."""
    return (file.with_suffix("") if file.suffix in COMPRESSIONS else file).as_posix().lower()


def _pair(files: Mapping[str, Path], stem: str) -> tuple[Part, Part] | None:
    """A file for each part."""
    for pattern in PAIRS:
        train, test = (files.get(pattern.format(stem, part)) for part in ("train", "test"))
        if train and test:
            return (train, None), (test, None)
    return None


def _whole(files: Mapping[str, Path], stem: str) -> tuple[Part, Part] | None:
    """One file, and two that name the rows of each part."""
    for pattern in WHOLES:
        whole, train, test = (files.get(pattern.format(stem, part)) for part in ("data", "trsplit", "tstsplit"))
        if whole and train and test:
            return (whole, train), (whole, test)
    return None


@lru_cache(maxsize=1)
def parts(folder: Path | None, name: str, pool: int) -> tuple[Dataset, Dataset]:
    """Training part and test part; kept, since trials of one set often follow."""
    if name == SYNTHETIC:
        return synthetic(240), synthetic(100, first=240)
    files = None if folder is None else dataset_files(folder, name)
    if files is None:
        raise FileNotFoundError(f"Data set {name} not found in {folder}. Download it from {REPOSITORY}.")
    train, test = (read(file, split=split) for file, split in files)
    if train.labels.shape[1] != test.labels.shape[1] or train.features.shape[1] != test.features.shape[1]:
        raise BadValue(
            f"{files[0][0]} and {files[1][0]} differ in their number of features or labels. Check that they belong "
            "together."
        )
    return (train.pooled(pool), test.pooled(pool)) if pool > 1 else (train, test)


def synthetic(points: int, first: int = 0, known: int = 40, wide: int = 60) -> Dataset:
    """Points whose labels each bring some features along: points first, first + 1, ... of an endless set."""
    csr_matrix = load("scipy.sparse").csr_matrix
    owned = np.random.default_rng(0).random((known, wide)) < 0.1
    features, labels = [], []
    for number in range(first, first + points):
        random = np.random.default_rng([1, number])
        own = random.choice(known, size=random.integers(1, 4), replace=False)
        features.append(owned[own].any(axis=0) & (random.random(wide) < 0.8) | (random.random(wide) < 0.02))
        labels.append(np.isin(np.arange(known), own))
    return Dataset(csr_matrix(np.array(features)), csr_matrix(np.array(labels)), SYNTHETIC)


def where_to_get(names: Sequence[str]) -> str:
    """Where data sets come from, and how their files are to be called."""
    files = ", ".join(f"{STEMS[name][0]}_train.txt and {STEMS[name][0]}_test.txt" for name in names)
    return f"Download them from {REPOSITORY}, and put them into the data folder as {files} (or .xz, .gz, .bz2)."

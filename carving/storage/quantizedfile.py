"""Files of quantized memories: the cells of a memory in 1 to 8 bits each, written atomically.

Tensors: `cells` (packed bits); `vocabulary` and `counts` (compressed), unless the caller supplies the values; `fillers`
if they were trained; `paths` if the memory keeps them; `fitted`, the calibration of a consolidated memory. The metadata
contain the scheme, the bits, the standard deviation of the numbers and the share of it that the cells keep, and a
checksum of everything.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadValue
from carving.hashing import STREAM
from carving.inference.calibration import Consolidated
from carving.inference.sample import Histogram
from carving.planner.requirements import Target
from carving.quantization import BITS, Cells, packed, single, unpacked
from carving.schemes.base import Scheme
from carving.storage import journal
from carving.storage.atomic import check_replaceable, replace_whole
from carving.storage.locks import Place, shown, turn
from carving.storage.memoryfile import (
    DTYPES,
    MOST,
    QUANTIZED,
    as_bytes,
    check_versions,
    goal_of,
    histogram_of,
    identity,
    names_of,
    raw_bytes_of,
    reals,
    scheme_of,
    trained_of,
    vocabulary_of,
)
from carving.storage.tensorfile import DAMAGE, BadFile, all_finite, check_sum, checksum, read_whole
from carving.symbols.packing import pack, unpack
from carving.symbols.vocabulary import Vocabulary

VERSION = "2"
NUMBERS = 2 * 32  # bits of the deviation, and of what the cells keep
COUNT = np.dtype("<u4")  # how often a value was stored


@dataclass(frozen=True)
class Quantized:
    """The contents of a file of a quantized memory."""

    scheme: Scheme
    cells: Cells
    pairs: int
    histogram: Histogram
    vocabulary: Vocabulary | None  # None where it is left out
    counts: Tensor | None  # with the vocabulary alone
    fillers: Tensor | None = None
    target: Target | None = None
    paths: Mapping[bytes, float] | None = None
    solved: Consolidated | None = None  # how its tensor was solved, if it is no sum

    @property
    def sizes(self) -> "Sizes":
        """The sizes of its parts, in bits."""
        return Sizes(
            cells=self.cells.codes.numel() * self.cells.bits,
            numbers=NUMBERS if self.solved is None else NUMBERS + 32 * self.solved.weights.numel(),
            counts=0 if self.counts is None else 8 * len(_packed_counts(self.counts)),
            vocabulary=0 if self.vocabulary is None else 8 * len(self.vocabulary.packed()),
        )


@dataclass(frozen=True)
class Sizes:
    """The sizes of the parts of a quantized memory, in bits."""

    cells: int
    numbers: int
    counts: int
    vocabulary: int  # the text of the labels

    @property
    def decoding(self) -> int:
        """The bits that queries need, without the labels."""
        return self.cells + self.numbers + self.counts


def write(path: Place, quantized: Quantized, force: bool = False) -> None:
    """Write the file of a quantized memory atomically; raises as `files.write` does."""
    tensors, metadata = _tensors(quantized), _metadata(quantized)
    metadata["checksum"] = checksum(tensors, metadata)
    with turn(path):
        check_replaceable(path, "quantized memory", force)
        journal.make_way(path, force)
        flushed = replace_whole(path, tensors, metadata)
        journal.retire(path, metadata["checksum"], flushed)


def _tensors(quantized: Quantized) -> dict[str, Tensor]:
    tensors = {"cells": packed(quantized.cells.codes, quantized.cells.bits)}
    if quantized.vocabulary is not None and quantized.counts is not None:
        tensors["vocabulary"] = names_of(quantized.vocabulary)
        tensors["counts"] = as_bytes(_packed_counts(quantized.counts))
    if quantized.fillers is not None:
        tensors["fillers"] = reals(quantized.fillers).cpu().contiguous()
    if quantized.paths is not None:
        tensors["paths"] = as_bytes(pack(quantized.paths))
    if quantized.solved is not None:
        tensors["fitted"] = quantized.solved.weights
    return tensors


def _metadata(quantized: Quantized) -> dict[str, str]:
    metadata = {
        "format": QUANTIZED,
        "version": VERSION,
        "stream": STREAM.decode().strip(),
        "scheme": json.dumps(identity(quantized.scheme), sort_keys=True),
        "dtype": str(quantized.scheme.dtype)[6:],
        "pairs": str(quantized.pairs),
        "bits": str(quantized.cells.bits),
        "deviation": repr(quantized.cells.deviation),
        "kept": repr(quantized.cells.kept),
    }
    if quantized.target is not None:
        metadata["target"] = json.dumps(asdict(quantized.target), sort_keys=True)
    if quantized.histogram.values:
        known = {"strengths": quantized.histogram.strengths, "values": quantized.histogram.values}
        metadata["histogram"] = json.dumps(known, sort_keys=True)
    if quantized.solved is not None:
        metadata["solved"] = quantized.solved.without_weights().as_json()
    return metadata


def _packed_counts(counts: Tensor) -> bytes:
    return zlib.compress(counts.cpu().numpy().astype(COUNT).tobytes(), 9)


def read(path: Place) -> Quantized:
    """Read the file of a quantized memory; raises as `files.read` does."""
    metadata, tensors = read_whole(path, "quantized memory", lambda said: _check_kind(path, said))
    try:
        return _quantized(metadata, tensors)
    except DAMAGE as error:
        raise BadFile(f"{shown(path)} is corrupt ({shown(error)}). Restore it from a backup.") from None


def _check_kind(path: Place, metadata: dict[str, str]) -> None:
    if metadata.get("format") != QUANTIZED:
        raise BadFile(
            f"{shown(path)} is not a quantized memory of Carving. Memory.save(file, bits=...) and `carving quantize` "
            "write one."
        )
    check_versions(path, metadata, VERSION, "Quantize the memory again.")


def _quantized(metadata: dict[str, str], tensors: dict[str, Tensor]) -> Quantized:
    check_sum(metadata, tensors)
    parameters, bits = json.loads(metadata["scheme"]), int(metadata["bits"])
    if not isinstance(parameters, dict) or bits not in BITS:
        raise BadValue(
            f"the scheme must be a JSON object with a name and parameters, and bits one of {BITS}, got bits={bits}"
        )
    scheme = scheme_of(parameters, 8 * tensors["cells"].numel() // bits, DTYPES[metadata["dtype"]])
    vocabulary, counts = _values(tensors)
    pairs = int(metadata["pairs"])
    if not 0 < pairs <= MOST or (counts is not None and float(counts.sum()) != pairs):
        raise BadValue(f"pairs={pairs} is invalid, or does not match the counts")
    paths, solved = tensors.get("paths"), _solved(metadata, tensors.get("fitted"))
    return Quantized(
        scheme=scheme,
        cells=_cells(metadata, scheme, tensors["cells"], bits),
        pairs=pairs,
        histogram=_histogram(metadata, pairs, solved is None),
        vocabulary=vocabulary,
        counts=counts,
        fillers=_fillers(scheme, tensors.get("fillers"), len(vocabulary or ())),
        target=goal_of(metadata),
        paths=None if paths is None else unpack(raw_bytes_of("paths", paths)),
        solved=solved,
    )


def _solved(metadata: dict[str, str], weights: Tensor | None) -> Consolidated | None:
    """How a tensor was solved; None for a sum."""
    if ("solved" in metadata) != (weights is not None):
        raise BadValue("the file has only one of `solved` and `fitted`")
    return None if weights is None else Consolidated.of_json(metadata["solved"], weights)


def _fillers(scheme: Scheme, fillers: Tensor | None, values: int) -> Tensor | None:
    trained = None if fillers is None else trained_of(scheme, fillers, values)
    if trained is not None and not all_finite(trained):
        raise BadValue("the tensor 'fillers' contains infinity or not-a-number")
    return trained


def _cells(metadata: dict[str, str], scheme: Scheme, data: Tensor, bits: int) -> Cells:
    raw_bytes_of("cells", data)
    shape = (*scheme.facts.memory_shape, 2) if scheme.facts.memory_dtype.is_complex else scheme.facts.memory_shape
    deviation, kept = float(metadata["deviation"]), float(metadata["kept"])
    if not all(0 < number < math.inf and number == single(number) for number in (deviation, kept)):
        raise BadValue(f"deviation={deviation} and kept={kept} must be positive float32 numbers")
    return Cells(unpacked(data, bits, math.prod(shape)).view(shape), bits, deviation, kept)


def _values(tensors: dict[str, Tensor]) -> tuple[Vocabulary | None, Tensor | None]:
    """The labels and how often each was stored, or neither."""
    if ("vocabulary" in tensors) != ("counts" in tensors):
        raise BadValue("the file has values without counts, or counts without values")
    if "vocabulary" not in tensors:
        return None, None
    names = tensors["vocabulary"]
    stream, limit = zlib.decompressobj(), COUNT.itemsize * (names.numel() // 3)  # a label has three bytes at least
    try:
        raw = stream.decompress(raw_bytes_of("counts", tensors["counts"]), limit + 1)
    except zlib.error as error:
        raise BadValue(f"the counts cannot be decompressed ({error})") from None
    if len(raw) > limit or not stream.eof or stream.unused_data or len(raw) % COUNT.itemsize:
        raise BadValue("the compressed counts are truncated, or followed by other data")
    counts = torch.from_numpy(np.frombuffer(raw, COUNT).astype(np.float64))
    return vocabulary_of(names, counts), counts


def _histogram(metadata: dict[str, Any], pairs: int, is_sum: bool) -> Histogram:
    """How strongly pairs are held, those of a sum once each, and how many values paths hold."""
    if "histogram" not in metadata:
        return Histogram(((1.0, float(pairs)),))
    histogram = histogram_of(json.loads(metadata["histogram"]))
    if is_sum and any(strength != 1 for strength, _ in histogram.strengths):
        raise BadValue("the pairs of a sum must have strength 1")
    return histogram

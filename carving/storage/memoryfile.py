"""Files of memories, plain, consolidated and quantized: one safetensors file each, written atomically.

Tensors: `memory`, the numbers (complex ones as pairs of reals), or `cells`, their packed bits, if the memory is
quantized; `vocabulary`, the concatenated canonical bytes of the values, and `counts`, how often each was stored, unless
the values are left out; `fillers` if they were trained; `paths` if the memory keeps them (`packing.py`); `fitted`, the
calibration of a memory that is consolidated and quantized. The metadata contain the scheme with its parameters and a
checksum of everything.
"""

import base64
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.hashing import STREAM
from carving.inference.calibration import Consolidated
from carving.inference.sample import (
    KEY_BYTES,
    MAX_LEVELS,
    MAX_SAMPLED_PAIRS,
    MAX_VALUES,
    NOTHING_SAMPLED,
    Histogram,
    PairSample,
)
from carving.planner.requirements import Target
from carving.quantization import BITS, Cells, packed, single, unpacked
from carving.schemes import make
from carving.schemes.base import Scheme
from carving.storage import journal
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import (
    CHUNK,
    BadFile,
    Metadata,
    NotWhole,
    Tensors,
    all_finite,
    check_version,
    checksum,
    guarded,
    pack_tensors,
    parsing,
    read_tensors,
    refusing_damage,
    replace_tensors,
)
from carving.symbols.paths import pack, unpack
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import as_real
from carving.tiling import slices

SUM, QUANTIZED = "memory", "quantized memory"  # kinds of files; a consolidated memory is one or the other
FORMATS = {SUM: "carving memory", QUANTIZED: "carving quantized memory"}
VERSIONS = {SUM: "4", QUANTIZED: "2"}  # of the files; what labels give has a version of its own, `STREAM`
DTYPES = {str(dtype)[6:]: dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
MAX_COUNT = 2.0**53  # pairs: of more, a count does not distinguish one more or less
MAX_BITS = 2**11  # of a sample: more than double precision has exponents
NUMBERS = 2 * 32  # bits of the deviation, and of the share that the cells keep
QUANTIZED_COUNT = np.dtype("<u4")  # how often a value was stored, in a quantized memory


@dataclass(frozen=True, kw_only=True)
class Header:
    """The record with which every memory file begins.

    Attributes:
        scheme: The scheme that binds the pairs.
        target: The target that the memory was planned for.
        sample: A sample of the pairs with their net weights, or how many there are of each weight.
        solved: The calibration of a consolidated memory.
        checksum: The checksum of the file that was read.
    """

    scheme: Scheme
    target: Target | None = None
    sample: PairSample | Histogram = NOTHING_SAMPLED
    solved: Consolidated | None = None
    checksum: str = ""


@dataclass(frozen=True, kw_only=True)
class MemoryContents(Header):
    """The contents of a memory file.

    Attributes:
        tensor: The memory; its cells if it is quantized.
        vocabulary: The values; None where they are left out.
        counts: (values,) How often each value was stored; None without the values.
        pairs: The number of pairs.
        fillers: The trained fillers of the first values.
        paths: The canonical bytes of paths and the weights stored there, if the memory keeps paths.
    """

    tensor: Tensor | Cells
    vocabulary: Vocabulary | None
    counts: Tensor | None
    pairs: int
    fillers: Tensor | None = None
    paths: Mapping[bytes, float] | None = None

    @property
    def kind(self) -> str:
        """The kind of file."""
        return QUANTIZED if isinstance(self.tensor, Cells) else SUM

    @property
    def cells(self) -> Cells:
        """The cells of a quantized memory."""
        assert isinstance(self.tensor, Cells)
        return self.tensor

    @property
    def sizes(self) -> "Sizes":
        """The sizes of the parts of a quantized memory, in bits."""
        weights = 0 if self.solved is None else self.solved.weights.numel()
        return Sizes(
            cells=self.cells.codes.numel() * self.cells.bits,
            numbers=NUMBERS + 32 * weights,
            counts=0 if self.counts is None else 8 * len(_pack_counts(self.counts.cpu())),
            vocabulary=0 if self.vocabulary is None else 8 * len(self.vocabulary.packed()),
        )


class Sizes(NamedTuple):
    """The sizes of the parts of a quantized memory, in bits; the vocabulary's is that of the labels' text."""

    cells: int
    numbers: int
    counts: int
    vocabulary: int

    @property
    def decoding(self) -> int:
        """The bits that queries need, without the labels."""
        return self.cells + self.numbers + self.counts


@dataclass(frozen=True, kw_only=True)
class Outline(Header):
    """The contents of a memory file without its tensor; not verified by the checksum."""

    names: bytes  # the concatenated canonical bytes of the values
    counts: Tensor
    is_trained: bool  # whether it has trained fillers
    keeps_paths: bool


# Writing


def write(path: Place, contents: MemoryContents, dtype: torch.dtype | None = None, force: bool = False) -> str:
    """Write a memory file atomically, and return its checksum.

    A process that is killed leaves either the old file or the new one. The journal of the old file is removed.

    Args:
        path: The file.
        contents: The memory.
        dtype: The precision of the stored tensor, such as torch.bfloat16; None keeps that of the scheme.
        force: Overwrite a file that is not such a memory, or read-only.

    Raises:
        BadValue: If the memory cannot be represented in this dtype, or the path is another kind of file.
        OSError: If the file cannot be written; the old one is then unchanged.
    """
    if dtype is not None and dtype not in DTYPES.values():
        raise BadType(f"dtype must be one of {', '.join(f'torch.{name}' for name in DTYPES)}, got {dtype!r}")
    tensors, metadata = _tensors_of(contents, dtype or contents.scheme.dtype)
    with guarded(path, contents.kind, force):
        journal.drop_stale(path, force)
        flushed = replace_tensors(path, tensors, metadata)
        journal.remove_journal(path, metadata["checksum"], flushed)
    return metadata["checksum"]


def to_bytes(contents: MemoryContents) -> bytes:
    """Return the bytes of the file that `write` would write."""
    file = BytesIO()
    pack_tensors(file, *_tensors_of(contents, contents.scheme.dtype))
    return file.getvalue()


def _tensors_of(contents: MemoryContents, dtype: torch.dtype) -> tuple[Tensors, Metadata]:
    tensors = _tensors(contents, dtype)
    metadata = _metadata(contents, tensors)
    metadata["checksum"] = checksum(tensors, metadata)
    return tensors, metadata


def _tensors(contents: MemoryContents, dtype: torch.dtype) -> Tensors:
    tensors, cells = Tensors(), contents.tensor
    if isinstance(cells, Cells):
        tensors["cells"] = packed(cells.codes, cells.bits)
    else:
        kept = reals(cells).to("cpu", dtype)
        if not all_finite(kept):
            raise BadValue(f"The memory contains numbers that {dtype} cannot represent. Save it with torch.float32.")
        tensors["memory"] = kept.contiguous()
    if contents.vocabulary is not None and contents.counts is not None:
        counts = contents.counts.detach().to("cpu", torch.float64).contiguous()
        if not float(counts.abs().sum()) <= MAX_COUNT:
            raise BadValue(
                f"The counts of the memory add up to more than {MAX_COUNT:.0f}. Store pairs with smaller weights."
            )
        tensors["vocabulary"] = torch.from_numpy(contents.vocabulary.packed().copy())
        tensors["counts"] = counts if contents.kind == SUM else _as_tensor(_pack_counts(counts))
    if contents.fillers is not None:
        tensors["fillers"] = reals(contents.fillers).cpu().contiguous()
    if contents.paths is not None:
        tensors["paths"] = _as_tensor(pack(contents.paths))
    if contents.kind == QUANTIZED and contents.solved is not None:
        tensors["fitted"] = contents.solved.weights
    return tensors


def _metadata(contents: MemoryContents, tensors: Tensors) -> Metadata:
    """Return the metadata of a file, but for its checksum."""
    scheme, sample, solved, cells = contents.scheme, contents.sample, contents.solved, contents.tensor
    metadata = {
        "format": FORMATS[contents.kind],
        "version": VERSIONS[contents.kind],
        "stream": STREAM.decode().strip(),
        "scheme": json.dumps(identity(scheme), sort_keys=True),
        "dtype": str(scheme.dtype)[6:],
        "pairs": str(contents.pairs),
    }
    if contents.target is not None:
        metadata["target"] = json.dumps(asdict(contents.target), sort_keys=True)
    if isinstance(cells, Cells):
        metadata |= {"bits": str(cells.bits), "deviation": repr(cells.deviation), "kept": repr(cells.kept)}
        solved = None if solved is None else replace(solved, levels=())
    else:
        metadata["energy"] = repr(_energy(tensors["memory"]))
    if solved is not None:
        metadata["solved"] = solved.as_json()
    if isinstance(sample, PairSample) and sample.weights:
        metadata["sample"] = _sample_as_json(sample)
    elif isinstance(sample, Histogram) and sample.values and contents.kind == QUANTIZED:
        metadata["histogram"] = json.dumps({"strengths": sample.strengths, "values": sample.values})
    return metadata


def _energy(tensor: Tensor) -> float:
    """The sum of squares in doubles, of a few numbers at a time, and the same for any number of threads."""
    numbers = tensor.reshape(-1)
    return math.fsum([numbers[part].double().square().numpy().sum() for part in slices(len(numbers), CHUNK)])


def _pack_counts(counts: Tensor) -> bytes:
    return zlib.compress(counts.numpy().astype(QUANTIZED_COUNT).tobytes(), 9)


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def reals(tensor: Tensor) -> Tensor:
    """Return the real numbers of a tensor: two for a complex one."""
    return as_real(tensor).detach()


def rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the tensor rounded as by saving and loading it in this precision."""
    if not tensor.is_complex():
        return tensor.to(dtype).to(tensor.dtype)
    numbers = torch.view_as_real(tensor)
    return torch.view_as_complex(numbers.to(dtype).to(numbers.dtype))


def precision(path: Place, tensor: Tensor) -> torch.dtype | None:
    """Return the precision of a memory file, to keep it when the file is rewritten with this tensor.

    None if the file does not exist, or if the tensor is not finite in that precision.
    """
    try:
        _, tensors = read_tensors(path, "memory file", lambda said: _check_format(path, said, SUM), only=())
    except FileNotFoundError:
        return None
    dtype = tensors["memory"].dtype if "memory" in tensors else None
    return dtype if dtype in DTYPES.values() and all_finite(reals(tensor).to(dtype)) else None


# Reading


def read(path: Place, kind: str = SUM, part: Callable[[int], slice] | None = None) -> MemoryContents:
    """Read a memory file. Allocations are bounded by the size of the file.

    Args:
        path: The file.
        kind: `SUM` or `QUANTIZED`.
        part: A function from the number of rows of the tensor to the rows to load; None loads all. The checksum covers
            the whole tensor, which is streamed.

    Raises:
        BadFile: If the file is corrupt, of another kind, or of another format version.
        FileNotFoundError: If it does not exist.
    """
    mapped = () if part is None else ("memory",)
    noun = f"{kind} file" if kind == SUM else kind
    metadata, tensors = read_tensors(path, noun, lambda said: _check_format(path, said, kind), mapped=mapped)
    with refusing_damage(path):
        return _contents(metadata, tensors, kind, part)


def from_bytes(data: bytes, name: str = "The state", kind: str = SUM) -> MemoryContents:
    """Return the contents that `to_bytes` wrote; `name` is what messages call the data."""
    metadata, tensors = read_tensors(name, "memory", lambda said: _check_format(name, said, kind), data=data)
    with refusing_damage(name):
        return _contents(metadata, tensors, kind)


def outline(path: Place) -> Outline:
    """Read a memory file without its tensor, in milliseconds whatever its size; raises as `read` does."""
    kept = ("vocabulary", "counts")
    metadata, tensors = read_tensors(path, "memory file", lambda said: _check_format(path, said, SUM), only=kept)
    with refusing_damage(path):
        counts = _tensor_of(tensors, "counts", torch.float64)
        if counts.dim() != 1 or not all_finite(counts):
            raise NotWhole("counts must be finite numbers, one for each value")
        return Outline(
            **_header(metadata, _tensor_of(tensors, "memory").numel(), float(counts.clamp_min(0).sum())),
            names=_tensor_of(tensors, "vocabulary", torch.uint8).numpy().tobytes(),
            counts=counts,
            is_trained="fillers" in tensors,
            keeps_paths="paths" in tensors,
        )


def _check_format(path: Place, metadata: Metadata, kind: str) -> None:
    """Raise an error if a file is of another kind or version, or its labels are."""
    found = metadata.get("format")
    if kind == SUM and found == FORMATS[QUANTIZED]:
        raise BadFile(
            f"{shown(path)} is a quantized memory, which answers queries but cannot be changed. Read it with "
            "QuantizedMemory.load(file), or convert it to a memory with to_memory() or `carving decode`."
        )
    if found != FORMATS[kind]:
        raise BadFile(
            f"{shown(path)} is a safetensors file, but not a memory of Carving. Memory.save(file) and `carving store` "
            "write one."
            if kind == SUM
            else f"{shown(path)} is not a quantized memory of Carving. Memory.save(file, bits=...) and `carving "
            "quantize` write one."
        )
    way_out = "Store its pairs in a new memory." if kind == SUM else "Quantize the memory again."
    check_version(path, metadata.get("version"), VERSIONS[kind], way_out)
    stream, own = metadata.get("stream"), STREAM.decode().strip()
    if stream != own:
        raise BadFile(
            f"{shown(path)} was made with labels of version {stream!r:.30}, and this Carving has {own!r}. {way_out} "
            "The Carving that wrote the file reads it."
        )


def _contents(
    metadata: Metadata, tensors: Tensors, kind: str, part: Callable[[int], slice] | None = None
) -> MemoryContents:
    vocabulary, counts = _values(tensors, kind)
    stored = None if counts is None else float(counts.clamp_min(0).sum())
    if kind == SUM:
        header = _header(metadata, _tensor_of(tensors, "memory").numel(), stored)
        numbers: Tensor | Cells = _memory(header["scheme"], tensors["memory"], part)
        pairs = round(stored or 0)
    else:
        with parsing():
            bits, pairs = int(metadata["bits"]), int(metadata["pairs"])
        if bits not in BITS:
            raise NotWhole(f"bits must be one of {BITS}, got bits={bits}")
        if not 0 < pairs <= MAX_COUNT or (stored is not None and stored != pairs):
            raise NotWhole(f"pairs={pairs} is invalid, or does not match the counts")
        cells = _tensor_of(tensors, "cells", torch.uint8)
        header = _header(metadata, 8 * cells.numel() // bits, float(pairs), tensors.get("fitted"))
        numbers = _cells(metadata, header["scheme"], cells, bits)
    fillers = (
        None if "fillers" not in tensors else _trained(header["scheme"], tensors["fillers"], len(vocabulary or ()))
    )
    with parsing():
        paths = unpack(_tensor_of(tensors, "paths", torch.uint8).numpy().tobytes()) if "paths" in tensors else None
    for name, each in (("memory", numbers), ("fillers", fillers)):
        if isinstance(each, Tensor) and not all_finite(each):
            raise NotWhole(f"the tensor {name!r} contains infinity or not-a-number")
    return MemoryContents(
        **header, tensor=numbers, vocabulary=vocabulary, counts=counts, pairs=pairs, fillers=fillers, paths=paths
    )


def _tensor_of(tensors: Tensors, name: str, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor that a file must have; one of bytes has one dimension."""
    tensor = tensors.get(name)
    if tensor is None:
        raise NotWhole(f"the tensor {name!r} is missing")
    if dtype is not None and (tensor.dtype != dtype or (dtype == torch.uint8 and tensor.dim() != 1)):
        raise NotWhole(f"the tensor {name!r} must be of {str(dtype)[6:]}, got {tensor.dtype} with {tensor.dim()} axes")
    return tensor


def _values(tensors: Tensors, kind: str) -> tuple[Vocabulary | None, Tensor | None]:
    """Return the values and how often each was stored; a quantized memory may have neither."""
    if kind == QUANTIZED and "vocabulary" not in tensors and "counts" not in tensors:
        return None, None
    names = _tensor_of(tensors, "vocabulary", torch.uint8)
    if kind == SUM:
        counts = _tensor_of(tensors, "counts", torch.float64)
    else:
        counts = _unpack_counts(_tensor_of(tensors, "counts", torch.uint8), names.numel() // 3)  # bytes of a label
    with parsing():
        vocabulary = Vocabulary.of_bytes(names.numpy())
    if counts.shape != (len(vocabulary),):
        raise NotWhole(f"the file has {len(vocabulary)} values and counts of shape {tuple(counts.shape)}")
    if not all_finite(counts):
        raise NotWhole("the tensor 'counts' contains infinity or not-a-number")
    if float(counts.abs().sum()) > MAX_COUNT:
        raise NotWhole(f"the counts add up to more than {MAX_COUNT:.0f}")
    return vocabulary, counts


def _unpack_counts(data: Tensor, most: int) -> Tensor:
    stream, limit = zlib.decompressobj(), QUANTIZED_COUNT.itemsize * most
    try:
        raw = stream.decompress(data.numpy().tobytes(), limit + 1)
    except zlib.error as error:
        raise NotWhole(f"the counts cannot be decompressed ({error})") from None
    if len(raw) > limit or not stream.eof or stream.unused_data or len(raw) % QUANTIZED_COUNT.itemsize:
        raise NotWhole("the compressed counts are truncated, or followed by other data")
    return torch.from_numpy(np.frombuffer(raw, QUANTIZED_COUNT).astype(np.float64))


def _header(metadata: Metadata, numbers: int, stored: float | None, weights: Tensor | None = None) -> dict[str, Any]:
    """Return the arguments of a `Header` from the metadata of a memory with `numbers` cells and `stored` pairs."""
    quantized = metadata["format"] == FORMATS[QUANTIZED]
    if quantized and ("solved" in metadata) != (weights is not None):
        raise NotWhole("the file has only one of `solved` and `fitted`")
    with parsing():
        solved = Consolidated.of_json(metadata["solved"], weights) if "solved" in metadata else None
        target = Target(**json.loads(metadata["target"])) if "target" in metadata else None
        if quantized and "histogram" in metadata:
            sample: PairSample | Histogram = _histogram(json.loads(metadata["histogram"]), is_sum=solved is None)
        elif not quantized and "sample" in metadata:
            sample = _sample(json.loads(metadata["sample"]))
        else:  # every pair counts as stored once
            sample = Histogram(((1.0, stored),)) if stored else NOTHING_SAMPLED
        parameters, dtype = json.loads(metadata["scheme"]), DTYPES[metadata["dtype"]]
    scheme = _scheme(parameters, numbers, dtype)
    return dict(scheme=scheme, target=target, sample=sample, solved=solved, checksum=metadata["checksum"])


def _scheme(parameters: Any, numbers: int, dtype: torch.dtype) -> Scheme:
    """Make a scheme; some hold tables as large as their parameters, so these are looked at first."""
    if not isinstance(parameters, dict) or not isinstance(parameters.get("name"), str) or "d" not in parameters:
        raise NotWhole("the scheme must be a JSON object with a name and parameters")
    for name, value in parameters.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name not in ("seed", "r", "dictionary") and whole and value > 2 * numbers + 64:
            raise NotWhole(f"the scheme has {name}={value}, but the tensor has only {numbers} numbers")
    scheme = make(**(parameters | dict(dtype=dtype)))
    if identity(scheme) != parameters:
        raise NotWhole(f"the parameters {sorted(parameters)} do not match {scheme}")
    return scheme


def identity(scheme: Scheme) -> dict[str, Any]:
    """Return the name and parameters of a scheme, the arguments from which `make` creates it again."""
    return {"name": scheme.name} | scheme.parameters


def _shape(scheme: Scheme) -> tuple[int, ...]:
    """The shape of a memory's real numbers."""
    return (*scheme.facts.memory_shape, 2) if scheme.facts.memory_dtype.is_complex else scheme.facts.memory_shape


def _memory(scheme: Scheme, memory: Tensor, part: Callable[[int], slice] | None) -> Tensor:
    """Return the memory in the scheme's own numbers, or these rows of it."""
    if memory.dtype not in DTYPES.values():
        raise NotWhole(f"the tensor 'memory' must have a dtype of {', '.join(DTYPES)}, got {memory.dtype}")
    if tuple(memory.shape) != _shape(scheme):
        raise NotWhole(f"the scheme {scheme} needs a tensor of shape {_shape(scheme)}, got {tuple(memory.shape)}")
    tensor = memory.to(scheme.dtype) if part is None else memory[part(len(memory))].to(scheme.dtype, copy=True)
    return torch.view_as_complex(tensor) if scheme.facts.memory_dtype.is_complex else tensor


def _cells(metadata: Metadata, scheme: Scheme, data: Tensor, bits: int) -> Cells:
    with parsing():
        deviation, kept = float(metadata["deviation"]), float(metadata["kept"])
        if not all(0 < number < math.inf and number == single(number) for number in (deviation, kept)):
            raise NotWhole(f"deviation={deviation} and kept={kept} must be positive float32 numbers")
    return Cells(unpacked(data, bits, math.prod(_shape(scheme))).view(_shape(scheme)), bits, deviation, kept)


def _trained(scheme: Scheme, fillers: Tensor, values: int) -> Tensor:
    """Return the trained fillers of the first values."""
    if not fillers.is_floating_point():
        raise NotWhole(f"the fillers must be floating point numbers, got {fillers.dtype}")
    if scheme.facts.memory_dtype.is_complex:
        if fillers.shape[-1:] != (2,):
            raise NotWhole(f"complex fillers must have 2 as their last dimension, got shape {tuple(fillers.shape)}")
        fillers = torch.view_as_complex(fillers.to(scheme.dtype))
    if fillers.shape[1:] != scheme.facts.filler_shape or not 0 < len(fillers) <= values:
        raise NotWhole(f"the fillers have shape {tuple(fillers.shape)} for {values} values")
    return fillers


# Samples and histograms of pairs, as JSON


def _sample_as_json(sample: PairSample) -> str:
    """Weights are left out where all are 1."""
    weights = list(sample.weights.values())
    said: dict[str, Any] = {"bits": sample.bits, "keys": base64.b64encode(b"".join(sample.weights)).decode()}
    if set(weights) != {1.0}:
        said["weights"] = weights
    fewer = [sample.fewer.get(key, 0) for key in sample.weights]
    return json.dumps(said | ({"fewer": fewer} if any(fewer) else {}))


def _sample(said: dict[str, Any]) -> PairSample:
    """Return the sample of pairs of a file."""
    bits, data = said["bits"], base64.b64decode(said["keys"], validate=True)
    keys = [data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES)]
    weights, fewer = said.get("weights", [1.0] * len(keys)), said.get("fewer", [0] * len(keys))
    if len(keys) > MAX_SAMPLED_PAIRS or len({len(keys), len(set(keys)), len(weights), len(fewer)}) > 1:
        raise NotWhole(f"the sample of pairs has {len(set(keys))} keys and {len(weights)} weights")
    if len(data) % KEY_BYTES or not all(type(each) is int and 0 <= each <= MAX_BITS for each in (bits, *fewer)):
        raise NotWhole(f"the sample of pairs has {len(data)} bytes of keys, or invalid numbers of bits")
    if not all(type(weight) in (int, float) and 0 < abs(weight) <= MAX_COUNT for weight in weights):
        raise NotWhole("the sample of pairs has invalid weights")
    known = {key: less for key, less in zip(keys, fewer, strict=True) if less}
    return PairSample(bits, dict(zip(keys, map(float, weights), strict=True)), known)


def _histogram(said: dict[str, Any], is_sum: bool) -> Histogram:
    """Return the histogram of a file: how many pairs have each strength, all 1 in a sum, and values of paths."""
    strengths = tuple((float(s), float(n)) for s, n in said["strengths"])
    histogram = Histogram(strengths, tuple(map(float, said["values"])))
    numbers = (*histogram.values, *(number for level in strengths for number in level))
    if len(said) != 2 or len(strengths) > MAX_LEVELS or len(histogram.values) > MAX_VALUES:
        raise NotWhole(f"the histogram has {len(strengths)} strengths and {len(histogram.values)} counts of values")
    if not all(0 < number <= MAX_COUNT for number in numbers):
        raise NotWhole(f"the numbers of the histogram must be positive, and at most {MAX_COUNT:.0f}")
    if is_sum and any(strength != 1 for strength, _ in strengths):
        raise NotWhole("the pairs of a sum must have strength 1")
    return histogram

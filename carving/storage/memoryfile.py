"""Files of memories: one safetensors file each, written atomically.

Tensors: `memory` (complex numbers as pairs of reals), `vocabulary` (the concatenated canonical bytes of the values),
`counts` (how often each value was stored), `fillers` if they were trained, `paths` if the memory keeps them
(`packing.py`). The metadata contain the scheme with its parameters and a checksum of everything.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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
from carving.schemes import make
from carving.schemes.base import Scheme
from carving.storage import journal
from carving.storage.atomic import NotFlushed, check_replaceable, replace_whole
from carving.storage.locks import Place, check_folder, check_target, lock_for, shown, turn
from carving.storage.tensorfile import (
    AT_ONCE,
    DAMAGE,
    BadFile,
    all_finite,
    check_sum,
    check_version,
    checksum,
    read_whole,
)
from carving.symbols.packing import pack, unpack
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices

__all__ = [
    "BadFile",
    "Contents",
    "NotFlushed",
    "Outline",
    "check_folder",
    "check_replaceable",
    "check_target",
    "checksum",
    "goal_of",
    "identity",
    "lock_for",
    "outline",
    "precision",
    "read",
    "rounded",
    "write",
]

VERSION = "4"  # of the file; what labels give has a version of its own, `STREAM`
DTYPES = {str(dtype)[6:]: dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
MOST = 2.0**53  # pairs: of more, a count does not tell one more or less
QUANTIZED = "carving quantized memory"  # the format of files that `sealedfiles.py` reads
MOST_BITS = 2**11  # of a sample: more than double precision has exponents
READ = ("vocabulary", "counts")  # what an outline is made of


@dataclass(frozen=True)
class Contents:
    """The contents of a memory file."""

    scheme: Scheme
    tensor: Tensor
    vocabulary: Vocabulary
    counts: Tensor
    fillers: Tensor | None = None  # trained fillers of the first values
    target: Target | None = None  # the target that it was planned for
    paths: Mapping[bytes, float] | None = None  # canonical bytes of paths -> stored weight, if the memory keeps paths
    sample: PairSample | Histogram = NOTHING_SAMPLED  # a sample of the pairs with their net weights
    solved: Consolidated | None = None  # the calibration of a consolidated memory
    checksum: str = ""  # of the file that was read


def write(path: Place, contents: Contents, dtype: torch.dtype | None = None, force: bool = False) -> str:
    """Write a memory file atomically, and return its checksum.

    A process that is killed values either the old file or the new one. The journal of the old file is removed.

    Args:
        path: The file.
        contents: The memory.
        dtype: The precision of the stored tensor, such as torch.bfloat16; None keeps that of the scheme.
        force: Overwrite a file that is not a memory, or read-only.

    Raises:
        BadValue: If the memory cannot be represented in this dtype, or the path is another kind of file.
        OSError: If the file cannot be written; the old one is then unchanged.
    """
    if dtype is not None and dtype not in DTYPES.values():
        raise BadType(f"dtype must be one of {', '.join(f'torch.{name}' for name in DTYPES)}, got {dtype!r}")
    tensors = _tensors(contents, dtype or contents.scheme.dtype)
    metadata = _metadata(contents, tensors["memory"])
    metadata["checksum"] = checksum(tensors, metadata)
    with turn(path):
        check_replaceable(path, "memory", force)
        journal.make_way(path, force)
        flushed = replace_whole(path, tensors, metadata)
        journal.retire(path, metadata["checksum"], flushed)
    return metadata["checksum"]


def precision(path: Place, tensor: Tensor) -> torch.dtype | None:
    """Return the precision of a memory file, to keep it when the file is rewritten with this tensor.

    None if the file does not exist, or if the tensor is not finite in that precision.
    """
    try:
        _, tensors = read_whole(path, "memory file", lambda said: check_kind(path, said), only=())
    except FileNotFoundError:
        return None
    dtype = tensors["memory"].dtype if "memory" in tensors else None
    return dtype if dtype in DTYPES.values() and all_finite(reals(tensor).to(dtype)) else None


def rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the tensor rounded as by saving and loading it in this precision."""
    if not tensor.is_complex():
        return tensor.to(dtype).to(tensor.dtype)
    numbers = torch.view_as_real(tensor)
    return torch.view_as_complex(numbers.to(dtype).to(numbers.dtype))


def _tensors(contents: Contents, dtype: torch.dtype) -> dict[str, Tensor]:
    """What a file holds as tensors."""
    kept = reals(contents.tensor).to("cpu", dtype)
    if not all_finite(kept):
        raise BadValue(
            f"The memory contains numbers that {kept.dtype} cannot represent. Save it with dtype=torch.float32."
        )
    if not float(contents.counts.abs().sum()) <= MOST:
        raise BadValue(f"The counts of the memory add up to more than {MOST:.0f}. Store pairs with smaller weights.")
    tensors = {
        "memory": kept.contiguous(),
        "vocabulary": names_of(contents.vocabulary),
        "counts": contents.counts.detach().to("cpu", torch.float64).contiguous(),
    }
    if contents.fillers is not None:
        tensors["fillers"] = reals(contents.fillers).cpu().contiguous()
    if contents.paths is not None:
        tensors["paths"] = as_bytes(pack(contents.paths))
    return tensors


def reals(tensor: Tensor) -> Tensor:
    """The tensor's real numbers: two for a complex one."""
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).detach()


def as_bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _metadata(contents: Contents, kept: Tensor) -> dict[str, str]:
    """What a file says of itself, but for its checksum."""
    scheme = contents.scheme
    metadata = {
        "format": "carving memory",
        "version": VERSION,
        "stream": STREAM.decode().strip(),
        "scheme": json.dumps(identity(scheme), sort_keys=True),
        "dtype": str(scheme.dtype)[6:],
        "pairs": str(round(float(contents.counts.clamp_min(0).sum()))),
        "energy": repr(_energy(kept)),
    }
    if contents.target is not None:
        metadata["target"] = json.dumps(asdict(contents.target), sort_keys=True)
    if isinstance(contents.sample, PairSample) and contents.sample.weights:
        metadata["sample"] = _sample_as_json(contents.sample)
    if contents.solved is not None:
        metadata["solved"] = contents.solved.as_json()
    return metadata


def _energy(tensor: Tensor) -> float:
    """The sum of squares in doubles, of a few numbers at a time, and the same for any number of threads."""
    numbers = tensor.reshape(-1)
    return math.fsum(numbers[part].double().square().numpy().sum() for part in slices(len(numbers), AT_ONCE))


def read(path: Place, part: Callable[[int], slice] | None = None) -> Contents:
    """Read a memory file. Allocations are bounded by the size of the file.

    Args:
        path: The file.
        part: A function from the number of rows of the tensor to the rows to load; None loads all. The checksum covers
            the whole tensor, which is streamed.

    Raises:
        BadFile: If the file is corrupt, of another kind, or of another format version.
        FileNotFoundError: If it does not exist.
    """
    left = () if part is None else ("memory",)
    metadata, tensors = read_whole(path, "memory file", lambda said: check_kind(path, said), left=left)
    try:
        return _contents(metadata, tensors, part)
    except DAMAGE as error:
        raise BadFile(f"{shown(path)} is corrupt ({shown(error)}). Restore it from a backup.") from None


def _contents(
    metadata: dict[str, str], tensors: dict[str, Tensor], part: Callable[[int], slice] | None = None
) -> Contents:
    check_sum(metadata, tensors)
    memory, counts = tensors["memory"], tensors["counts"]
    fillers, paths = tensors.get("fillers"), tensors.get("paths")
    if memory.dtype not in DTYPES.values() or counts.dtype != torch.float64:
        raise BadValue(f"memory and counts have unsupported dtypes, {memory.dtype} and {counts.dtype}")
    scheme = scheme_of(_parameters(metadata), memory.numel(), DTYPES[metadata["dtype"]])
    vocabulary = vocabulary_of(tensors["vocabulary"], counts)
    trained = None if fillers is None else trained_of(scheme, fillers, len(vocabulary))
    contents = Contents(
        scheme=scheme,
        tensor=_tensor(scheme, memory, part),
        vocabulary=vocabulary,
        counts=counts,
        fillers=trained,
        target=goal_of(metadata),
        paths=None if paths is None else unpack(raw_bytes_of("paths", paths)),
        sample=sample_of(metadata, counts),
        solved=Consolidated.of_json(metadata["solved"]) if "solved" in metadata else None,
        checksum=metadata["checksum"],
    )
    for name, numbers in (("memory", contents.tensor), ("counts", counts), ("fillers", trained)):
        if numbers is not None and not all_finite(numbers):
            raise BadValue(f"the tensor {name!r} contains infinity or not-a-number")
    return contents


def raw_bytes_of(name: str, tensor: Tensor) -> bytes:
    """The bytes that a tensor is."""
    return octets_of(name, tensor).tobytes()


def octets_of(name: str, tensor: Tensor) -> NDArray[np.uint8]:
    """The same where they lie."""
    if tensor.dtype != torch.uint8 or tensor.dim() != 1:
        raise BadValue(f"the tensor {name!r} must be of uint8 with 1 dimension, got {tensor.dtype} with {tensor.dim()}")
    return tensor.numpy()


@dataclass(frozen=True)
class Outline:
    """The contents of a memory file without its tensor; not verified by the checksum."""

    scheme: Scheme
    names: bytes  # the concatenated canonical bytes of the values
    counts: Tensor
    trained: bool  # whether it has trained fillers
    keeps_paths: bool
    target: Target | None
    sample: PairSample | Histogram
    checksum: str
    solved: bool = False  # whether the memory was consolidated


def outline(path: Place) -> Outline:
    """Read a memory file without its tensor, in milliseconds whatever its size; raises as `read` does."""
    metadata, tensors = read_whole(path, "memory file", lambda said: check_kind(path, said), only=READ)
    try:
        scheme = scheme_of(_parameters(metadata), tensors["memory"].numel(), DTYPES[metadata["dtype"]])
        names, counts = tensors["vocabulary"].numpy().tobytes(), tensors["counts"]
        if counts.dim() != 1 or not all_finite(counts):
            raise BadValue("counts must be finite numbers, one for each value")
        has, target, sample = ("fillers" in tensors, "paths" in tensors), goal_of(metadata), sample_of(metadata, counts)
        return Outline(scheme, names, counts, *has, target, sample, metadata["checksum"], "solved" in metadata)
    except DAMAGE as error:
        raise BadFile(f"{shown(path)} is corrupt ({shown(error)}). Restore it from a backup.") from None


def goal_of(metadata: dict[str, str]) -> Target | None:
    """Return the target that a memory file was planned for, or None."""
    return Target(**json.loads(metadata["target"])) if "target" in metadata else None


def _sample_as_json(sample: PairSample) -> str:
    """Weights are left out where all are 1."""
    keys = base64.b64encode(b"".join(sample.weights)).decode()
    weights = list(sample.weights.values())
    known = {"bits": sample.bits, "keys": keys} | ({"weights": weights} if set(weights) != {1.0} else {})
    fewer = [sample.fewer.get(key, 0) for key in sample.weights]
    return json.dumps(known | ({"fewer": fewer} if any(fewer) else {}))


def sample_of(metadata: dict[str, str], counts: Tensor) -> PairSample | Histogram:
    """The sample of the pairs that a file keeps; without one, every pair counts as stored once."""
    if "sample" not in metadata:
        pairs = float(counts.clamp_min(0).sum())
        return Histogram(((1.0, pairs),)) if pairs else NOTHING_SAMPLED
    said = json.loads(metadata["sample"])
    bits, packed = said["bits"], base64.b64decode(said["keys"], validate=True)
    keys = [packed[start : start + KEY_BYTES] for start in range(0, len(packed), KEY_BYTES)]
    weights, fewer = said.get("weights", [1.0] * len(keys)), said.get("fewer", [0] * len(keys))
    if type(bits) is not int or not 0 <= bits <= MOST_BITS or len(packed) % KEY_BYTES or len(keys) > MAX_SAMPLED_PAIRS:
        raise BadValue(f"the sample of pairs has {len(packed)} bytes of keys with {bits!r} zero bits")
    if len({len(keys), len(set(keys)), len(weights), len(fewer)}) > 1:
        raise BadValue(f"the sample of pairs has {len(set(keys))} keys and {len(weights)} weights")
    if not all(type(less) is int and 0 <= less <= MOST_BITS for less in fewer):
        raise BadValue("the sample of pairs has invalid numbers of bits")
    if not all(type(weight) in (int, float) and 0 < abs(weight) <= MOST for weight in weights):
        raise BadValue("the sample of pairs has invalid weights")
    known = {key: less for key, less in zip(keys, fewer, strict=True) if less}
    return PairSample(bits, dict(zip(keys, map(float, weights), strict=True)), known)


def histogram_of(said: dict[str, Any]) -> Histogram:
    """A histogram of positive numbers, no more of them than there may be."""
    strengths = tuple((float(s), float(n)) for s, n in said["strengths"])
    histogram = Histogram(strengths, tuple(map(float, said["values"])))
    numbers = (*histogram.values, *(number for level in strengths for number in level))
    if len(said) != 2 or len(strengths) > MAX_LEVELS or len(histogram.values) > MAX_VALUES:
        raise BadValue(f"the histogram has {len(strengths)} strengths and {len(histogram.values)} counts of values")
    if not all(0 < number <= MOST for number in numbers):
        raise BadValue(f"the numbers of the histogram must be positive, and at most {MOST:.0f}")
    return histogram


def names_of(vocabulary: Vocabulary) -> Tensor:
    """The canonical bytes of values, one after the other."""
    return torch.from_numpy(vocabulary.packed().copy())


def vocabulary_of(names: Tensor, counts: Tensor) -> Vocabulary:
    """The values, of which each has a count that counts."""
    vocabulary = Vocabulary.of_bytes(octets_of("vocabulary", names))
    if counts.shape != (len(vocabulary),):
        raise BadValue(f"the file has {len(vocabulary)} values and counts of shape {tuple(counts.shape)}")
    if float(counts.abs().sum()) > MOST:
        raise BadValue(f"the counts add up to more than {MOST:.0f}")
    return vocabulary


def _tensor(scheme: Scheme, memory: Tensor, part: Callable[[int], slice] | None = None) -> Tensor:
    """The memory in the scheme's own numbers, or these rows of it."""
    shape = (*scheme.facts.memory_shape, 2) if scheme.facts.memory_dtype.is_complex else scheme.facts.memory_shape
    if tuple(memory.shape) != shape:
        raise BadValue(f"the scheme {scheme} needs a tensor of shape {shape}, got {tuple(memory.shape)}")
    tensor = memory.to(scheme.dtype) if part is None else memory[part(len(memory))].to(scheme.dtype, copy=True)
    return torch.view_as_complex(tensor) if scheme.facts.memory_dtype.is_complex else tensor


def trained_of(scheme: Scheme, fillers: Tensor, values: int) -> Tensor:
    """The trained fillers of the first values."""
    if not fillers.is_floating_point():
        raise BadValue(f"the fillers must be floating point numbers, got {fillers.dtype}")
    if scheme.facts.memory_dtype.is_complex and fillers.shape[-1:] != (2,):
        raise BadValue(f"complex fillers must have 2 as their last dimension, got shape {tuple(fillers.shape)}")
    if scheme.facts.memory_dtype.is_complex:
        fillers = torch.view_as_complex(fillers.to(scheme.dtype))
    if fillers.shape[1:] != scheme.facts.filler_shape or not 0 < len(fillers) <= values:
        raise BadValue(f"the fillers have shape {tuple(fillers.shape)} for {values} values")
    return fillers


def _parameters(metadata: dict[str, str]) -> dict[str, Any]:
    """What a file says of its scheme."""
    parameters = json.loads(metadata["scheme"])
    if not isinstance(parameters, dict):
        raise BadValue("the scheme must be a JSON object with a name and parameters")
    return parameters


def scheme_of(parameters: dict[str, Any], numbers: int, dtype: torch.dtype) -> Scheme:
    """The scheme that a file speaks of; some hold tables as large as their parameters, so these are looked at first."""
    for name, value in parameters.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name not in ("seed", "r", "dictionary") and whole and value > 2 * numbers + 64:
            raise BadValue(f"the scheme has {name}={value}, but the tensor has only {numbers} numbers")
    scheme = make(**parameters, dtype=dtype)
    if identity(scheme) != parameters:
        raise BadValue(f"the parameters {sorted(parameters)} do not match {scheme}")
    return scheme


def identity(scheme: Scheme) -> dict[str, Any]:
    """Return the name and parameters of a scheme, the arguments from which `make` creates it again."""
    return {"name": scheme.name} | scheme.parameters


def check_kind(path: Place, metadata: dict[str, str]) -> None:
    """Raise an error if a file is of another kind or version."""
    if metadata.get("format") == QUANTIZED:
        raise BadFile(
            f"{shown(path)} is a quantized memory, which answers queries but cannot be changed. Read it with "
            "QuantizedMemory.load(file), or convert it to a memory with to_memory() or `carving decode`."
        )
    if metadata.get("format") != "carving memory":
        raise BadFile(
            f"{shown(path)} is a safetensors file, but not a memory of Carving. Memory.save(file) and `carving store` "
            "write one."
        )
    check_versions(path, metadata, VERSION, "Store its pairs in a new memory.")


def check_versions(path: Place, metadata: dict[str, str], version: str, way_out: str) -> None:
    """Raise an error if the version of the file, or of what labels give, is not the one that this Carving has."""
    check_version(path, metadata.get("version"), version, way_out)
    stream, own = metadata.get("stream"), STREAM.decode().strip()
    if stream != own:
        raise BadFile(
            f"{shown(path)} was made with labels of version {stream!r:.30}, and this Carving has {own!r}. {way_out} "
            "The Carving that wrote the file reads it."
        )

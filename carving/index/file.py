"""The file of an index, next to the file of its memory: `facts.safetensors.index`, memory-mapped.

The index is derived from the labels: a file that is missing or belongs to other labels is rebuilt, and a corrupt one is
reported. A file may hold fewer labels than the memory: the others are added.
"""

import hashlib
import json
import os
import warnings

from carving.hashing import STREAM
from carving.index.buckets import BucketIndex
from carving.index.ranking import CandidateIndex
from carving.schemes.base import Scheme
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import BadFile, check_version, parsing, read_tensors, refusing_damage, write_tensors
from carving.symbols.vocabulary import Vocabulary

VERSION = "1"
SUFFIX = ".index"
ARRAYS = ("order", "starts", "components")  # which are memory-mapped
HINT = "Remove the file, or save the memory again with index=True."


def index_path(path: Place) -> str:
    """Return the path of the index file of a memory file."""
    return os.fspath(path) + SUFFIX


def write_index(path: Place, index: CandidateIndex, vocabulary: Vocabulary, force: bool = False) -> None:
    """Write the index file of a memory file."""
    tensors, own = index.contents()
    metadata = {"format": "carving index", "version": VERSION} | own
    metadata |= _identity(index.scheme, vocabulary, len(index))
    write_tensors(index_path(path), "index", tensors, metadata, force)


def _identity(scheme: Scheme, vocabulary: Vocabulary, count: int) -> dict[str, str]:
    """Return the metadata that identify what an index was derived from."""
    return {
        "stream": STREAM.decode().strip(),
        "scheme": json.dumps({"name": scheme.name} | scheme.parameters, sort_keys=True),
        "values": str(count),
        "labels": hashlib.sha256(vocabulary.packed(0, count).data).hexdigest(),
    }


def read_index(path: Place, scheme: Scheme, vocabulary: Vocabulary) -> CandidateIndex | None:
    """Return the index of a memory file, None if missing, for another vocabulary, or corrupt (with a warning)."""
    target = index_path(path)
    if not os.path.exists(target):
        return None
    try:
        metadata, tensors = read_tensors(
            target,
            "index",
            lambda said: _check_kind(target, said),
            way_out=HINT,
            mapped=("order", "starts", "components"),
        )
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        with refusing_damage(target, way_out=HINT), parsing():
            count = int(metadata["values"])
            if count > len(vocabulary) or any(
                metadata.get(name) != value for name, value in _identity(scheme, vocabulary, count).items()
            ):
                return None
            return BucketIndex.from_contents(scheme, arrays, metadata, count)
    except OSError as error:
        problem = f"{shown(target)} could not be read ({shown(error)})."
    except BadFile as error:
        problem = str(error)
    warnings.warn(f"{problem} The index is rebuilt when it is needed.", stacklevel=2)
    return None


def _check_kind(path: Place, metadata: dict[str, str]) -> None:
    if metadata.get("format") != "carving index":
        raise BadFile(f"{shown(path)} is not an index of Carving. {HINT}")
    check_version(path, metadata.get("version"), VERSION, HINT)

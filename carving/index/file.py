"""The file of an index, next to the file of its memory: `facts.safetensors.index`, memory-mapped.

The index is derived from the labels: a file that is missing or belongs to other labels is rebuilt, and a corrupt one is
reported. A file may hold fewer labels than the memory: the others are added.
"""

import hashlib
import json
import os
import warnings

import torch

from carving.errors import BadValue
from carving.hashing import STREAM
from carving.index.buckets import BucketIndex
from carving.index.ranking import CandidateIndex
from carving.schemes.base import Scheme
from carving.storage.atomic import check_replaceable, replace_whole
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import DAMAGE, BadFile, checksum, mapped
from carving.symbols.vocabulary import Vocabulary

VERSION = "1"
SUFFIX = ".index"


def index_path(path: Place) -> str:
    """Return the path of the index file of a memory file."""
    return os.fspath(path) + SUFFIX


def write_index(path: Place, index: CandidateIndex, vocabulary: Vocabulary, force: bool = False) -> None:
    """Write the index file of a memory file."""
    target = index_path(path)
    check_replaceable(target, "index", force)
    tensors, own = index.contents()
    metadata = {"format": "carving index", "version": VERSION} | own
    metadata |= _identity(index.scheme, vocabulary, len(index))
    metadata["checksum"] = checksum(tensors, metadata)
    replace_whole(target, tensors, metadata)


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
        metadata, arrays = mapped(target, "index", _check_kind)
        count = int(metadata["values"])
        if count > len(vocabulary) or any(
            metadata.get(name) != value for name, value in _identity(scheme, vocabulary, count).items()
        ):
            return None
        index = BucketIndex.from_contents(scheme, arrays, metadata, count)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if metadata.get("checksum") != checksum(tensors, metadata):
            raise BadValue("checksum mismatch")
        return index
    except OSError as error:
        problem, hint = f"could not be read ({shown(error)})", ""
    except DAMAGE as error:
        problem = f"is corrupt ({shown(error)}) and is ignored"
        hint = " Remove the file, or save the memory again with index=True."
    warnings.warn(f"{shown(target)} {problem}; the index is rebuilt when it is needed.{hint}", stacklevel=2)
    return None


def _check_kind(metadata: dict[str, str]) -> None:
    if metadata.get("format") != "carving index":
        raise BadFile("not an index of Carving")
    if metadata.get("version") != VERSION:
        raise BadFile(f"format version {metadata.get('version')!r:.30}, expected {VERSION!r}")

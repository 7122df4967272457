"""The file of an index, next to the file of its memory: `facts.safetensors.index`, memory-mapped.

The index is derived from the labels: a file that is missing or belongs to other labels is rebuilt, and a corrupt one is
reported. A file may hold fewer labels than the memory: the others are added.
"""

import hashlib
import json
import os
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from carving.errors import BadValue
from carving.hashing import STREAM
from carving.index.segments import Index, Segment
from carving.schemes.base import Scheme
from carving.storage.atomic import check_replaceable, replace_whole
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import DAMAGE, BadFile, checksum, mapped
from carving.symbols.vocabulary import Vocabulary

VERSION = "1"
ENDING = ".index"


def beside(path: Place) -> str:
    """Return the path of the index file of a memory file."""
    return os.fspath(path) + ENDING


def write(path: Place, index: Index, vocabulary: Vocabulary, force: bool = False) -> None:
    """Write the index file of a memory file."""
    target = beside(path)
    check_replaceable(target, "index", force)
    segment = index.joined().segments[0]
    tensors = {
        "order": torch.from_numpy(segment.order),
        "starts": torch.from_numpy(segment.starts),
        "components": torch.from_numpy(segment.components),
    }
    metadata = {"format": "carving index", "version": VERSION, "each": str(index.each)}
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


def read(path: Place, scheme: Scheme, vocabulary: Vocabulary) -> Index | None:
    """Return the index of a memory file, None if missing, for another vocabulary, or corrupt (with a warning)."""
    target = beside(path)
    if not os.path.exists(target):
        return None
    try:
        metadata, arrays = mapped(target, "index", _check_kind)
        count = int(metadata["values"])
        if count > len(vocabulary) or any(
            metadata.get(name) != value for name, value in _identity(scheme, vocabulary, count).items()
        ):
            return None
        return _index(metadata, arrays, scheme, count)
    except OSError as error:
        warnings.warn(
            f"{shown(target)} could not be read ({shown(error)}); the index is rebuilt when it is needed.", stacklevel=2
        )
        return None
    except DAMAGE as error:
        warnings.warn(
            f"{shown(target)} is corrupt ({shown(error)}) and is ignored; the index is rebuilt when it is needed. "
            "Remove the file, or save the memory again with index=True.",
            stacklevel=2,
        )
        return None


def _check_kind(metadata: dict[str, str]) -> None:
    if metadata.get("format") != "carving index":
        raise BadFile("not an index of Carving")
    if metadata.get("version") != VERSION:
        raise BadFile(f"format version {metadata.get('version')!r:.30}, expected {VERSION!r}")


def _index(metadata: dict[str, str], arrays: dict[str, NDArray[Any]], scheme: Scheme, count: int) -> Index:
    order, starts, components = (arrays[name] for name in ("order", "starts", "components"))
    index = Index(scheme, int(metadata["each"]), (Segment(order, starts, components),))
    shapes = [(count,), (index.cells + 1,), (count, int(np.prod(scheme.facts.filler_shape)))]
    if [order.shape, starts.shape, components.shape] != shapes:
        raise BadValue("array shapes do not match the number of labels")
    if metadata.get("checksum") != checksum(
        {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata
    ):
        raise BadValue("checksum mismatch")
    return index

"""Messages that ranks exchange: JSON as bytes, so that no rank can make another execute code.

What JSON does not have is an object of one key, the name of its kind.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from carving.errors import BadType

PLAIN = (type(None), bool, int, float, str)  # what JSON has
RECORDS: dict[str, type] = {}


def exchangeable(*kinds: type) -> None:
    """Let ranks exchange records of these classes, by their fields."""
    RECORDS.update({kind.__name__: kind for kind in kinds})


def encode(message: object) -> bytes:
    """Return a message as bytes; for its types see `Ranks.gather`."""
    return json.dumps(_as_json(message)).encode()


def decode(data: bytes) -> Any:
    """Return the message that `encode` made bytes of."""
    return json.loads(data, object_hook=_from_tagged)


def _as_json(message: Any) -> Any:
    kind = type(message)
    if isinstance(message, PLAIN):
        return message
    if isinstance(message, bytes):
        return {"bytes": _base64(message)}
    if isinstance(message, Tensor):
        octets = message.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"tensor": [str(message.dtype).removeprefix("torch."), list(message.shape), _base64(octets)]}
    if RECORDS.get(kind.__name__) is kind:
        names = [field.name for field in fields(message)] if is_dataclass(message) else vars(message)
        return {"record": [kind.__name__, _as_json({name: getattr(message, name) for name in names})]}
    if isinstance(message, Mapping):
        return {"dict": [_as_json(list(message)), _as_json(list(message.values()))]}
    if isinstance(message, tuple | set):
        return {"tuple" if isinstance(message, tuple) else "set": _as_json(list(message))}
    if isinstance(message, list):
        return _list_as_json(message)
    raise BadType(
        f"message must be of a type that ranks can exchange (see Ranks.gather), got {message!r} of type {kind.__name__}"
    )


def _list_as_json(message: list[Any]) -> Any:
    """Return a list as JSON; what many items of one kind have in common stands there once."""
    kinds = set(map(type, message))
    if kinds <= {*PLAIN}:
        return message
    if kinds == {bytes}:
        return {"many bytes": [_base64(b"".join(message)), [0, *accumulate(map(len, message))]]}
    if kinds == {tuple} and len(set(map(len, message))) == 1 and message[0]:
        return {"rows": [_as_json(list(column)) for column in zip(*message, strict=True)]}
    return list(map(_as_json, message))


def _from_tagged(tagged: dict[str, Any]) -> Any:
    """Return what an object of one key stands for."""
    ((kind, given),) = tagged.items()
    match kind:
        case "bytes":
            return base64.b64decode(given)
        case "many bytes":
            data = base64.b64decode(given[0])
            return [data[start:end] for start, end in pairwise(given[1])]
        case "tensor":
            octets = bytearray(base64.b64decode(given[2]))
            dtype = getattr(torch, given[0])
            flat = torch.frombuffer(octets, dtype=dtype) if octets else torch.empty(0, dtype=dtype)
            return flat.reshape(given[1])
        case "record":
            record: Any = object.__new__(RECORDS[given[0]])
            vars(record).update(given[1])
            return record
        case "dict":
            return dict(zip(*given, strict=True))
        case "rows":
            return list(zip(*given, strict=True))
    return set(given) if kind == "set" else tuple(given)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

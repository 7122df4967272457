"""The view Overview: a memory in words and numbers, its load, and its cells."""

import torch

from carving.explore.params import Params
from carving.explore.serializers import Json, number, value_json
from carving.explore.sessions import SessionStore
from carving.explore.statistics import (
    GOOD_ACCURACY,
    cell_histogram,
    cell_slice,
    describe_scheme,
    held_bytes,
    least_bytes,
    load_curve,
    most_stored,
)
from carving.memory.quantized import QuantizedMemory
from carving.storage.memoryfile import identity, reals
from carving.validate import show_bits

LISTED_VALUES = 12  # the most frequent ones
COLOR_LEVELS = 127  # either way
COLOR_REACH = 3.5  # standard deviations at full color


def about(sessions: SessionStore, params: Params) -> Json:
    """Return what is explored, and what can be done with it."""
    document = sessions.document
    memory = document.memory
    return dict(
        session_is_open=sessions.touch(params.text("session", "")),
        name=document.name,
        quantized=isinstance(memory, QuantizedMemory),
        writable=document.file is not None,
        has_probabilities=memory.has_probabilities,
        keeps_paths=memory.keeps_paths,
        known_pairs=len(document.pairs),
    )


def overview(sessions: SessionStore, params: Params) -> Json:
    """Return a memory in words and numbers."""
    session = sessions.get(params.text("session"))
    memory = session.memory
    size, least = held_bytes(memory), least_bytes(memory)
    return dict(
        description=describe_scheme(memory.scheme),
        scheme=identity(memory.scheme)["name"],
        parameters={key: str(value) for key, value in identity(memory.scheme).items() if key != "name"},
        shape=list(memory.tensor.shape),
        cells=memory.scheme.facts.memory_scalars,
        pairs=memory.pairs,
        values=len(memory.vocabulary),
        paths=len(session.path_index),
        cells_per_pair=memory.scheme.facts.memory_scalars / memory.pairs if memory.pairs else None,
        bytes=size,
        least_bytes=least,
        relative_to_least=size / least if least else None,
        bits=show_bits(memory.bits) if isinstance(memory, QuantizedMemory) else None,
        is_consolidated=memory.is_consolidated,
        target=None if memory.target is None else dict(accuracy=memory.target.accuracy, pairs=memory.target.pairs),
        most_stored=[dict(value=value_json(value), times=times) for value, times in most_stored(memory, LISTED_VALUES)],
        changes=len(session.changes),
    )


def load(sessions: SessionStore, params: Params) -> Json:
    """Return the predicted accuracy by load; null if there is no prediction."""
    curve = load_curve(sessions.get(params.text("session")).memory)
    if curve is None:
        return dict(load=None)
    shown = dict(
        points=[
            dict(pairs=pairs, accuracy=accuracy) for pairs, accuracy in zip(curve.pairs, curve.accuracy, strict=True)
        ],
        load=curve.load,
        predicted=curve.predicted,
        capacity=curve.capacity,
        spare=curve.spare,
        excess=curve.excess,
        target=GOOD_ACCURACY,
    )
    return dict(load=shown)


def cells(sessions: SessionStore, params: Params) -> Json:
    """Return a slice of the cells as integers from -127 to 127, which are 3.5 standard deviations."""
    memory = sessions.get(params.text("session")).memory
    further = max(0, memory.tensor.dim() - 2)
    chosen = params.text("at", "") or ",".join(["0"] * further)
    at = tuple(Params({"at": each}).integer("at", None, 0, 2**31) for each in chosen.split(",") if each)
    seen = cell_slice(memory, at)
    levels = (seen.numbers * (COLOR_LEVELS / COLOR_REACH)).round().clamp(-COLOR_LEVELS, COLOR_LEVELS).to(torch.int8)
    return dict(
        rows=levels.tolist(),
        shape=list(seen.shape),
        at=list(at),
        step=list(seen.step),
        deviation=seen.deviation,
        reach=COLOR_REACH,
    )


def histogram(sessions: SessionStore, params: Params) -> Json:
    """Return a histogram of the cells and the normal distribution of equal variance."""
    memory = sessions.get(params.text("session")).memory
    seen = cell_histogram(memory)
    return dict(
        edges=list(seen.edges),
        counts=list(seen.counts),
        normal=list(seen.normal),
        sampled=seen.sampled,
        cells=reals(memory.tensor).numel(),
        deviation=number(seen.deviation),
        distinct=seen.distinct,
    )

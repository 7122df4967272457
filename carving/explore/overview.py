"""The view Overview: a memory in words and numbers, its load, and its cells."""

import torch

from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json, number, value_shown
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

MOST_STORED = 12  # values that are listed
FINE = 127  # levels of a color, either way
REACH = 3.5  # standard deviations at full color


def about(gallery: Gallery, given: Given) -> Json:
    """Return what is explored, and what can be done with it."""
    exhibit = gallery.exhibit
    memory = exhibit.memory
    return dict(
        held=gallery.touch(given.text("session", "")),
        name=exhibit.name,
        quantized=isinstance(memory, QuantizedMemory),
        writable=exhibit.file is not None,
        probabilities=memory.has_probabilities,
        keeps_paths=memory.keeps_paths,
        known_pairs=len(exhibit.pairs),
    )


def overview(gallery: Gallery, given: Given) -> Json:
    """Return a memory in words and numbers."""
    copy = gallery.copy(given.text("session"))
    memory = copy.memory
    held, least = held_bytes(memory), least_bytes(memory)
    return dict(
        words=describe_scheme(memory.scheme),
        scheme=identity(memory.scheme)["name"],
        parameters={key: str(value) for key, value in identity(memory.scheme).items() if key != "name"},
        shape=list(memory.tensor.shape),
        cells=memory.scheme.facts.memory_scalars,
        pairs=memory.pairs,
        values=len(memory.vocabulary),
        paths=len(copy.catalogue),
        numbers_a_pair=memory.scheme.facts.memory_scalars / memory.pairs if memory.pairs else None,
        bytes=held,
        least_bytes=least,
        times_the_least=held / least if least else None,
        bits=show_bits(memory.bits) if isinstance(memory, QuantizedMemory) else None,
        is_consolidated=memory.is_consolidated,
        target=None if memory.target is None else dict(accuracy=memory.target.accuracy, pairs=memory.target.pairs),
        most_stored=[dict(value=value_shown(value), times=times) for value, times in most_stored(memory, MOST_STORED)],
        changes=len(copy.changes),
    )


def fullness(gallery: Gallery, given: Given) -> Json:
    """Return the predicted accuracy by load; null if there is no prediction."""
    curve = load_curve(gallery.copy(given.text("session")).memory)
    if curve is None:
        return dict(gauge=None)
    gauge = dict(
        points=[dict(pairs=n, named=accuracy) for n, accuracy in zip(curve.pairs, curve.accuracy, strict=True)],
        held=curve.load,
        here=curve.predicted,
        fits=curve.capacity,
        more=curve.spare,
        over=curve.excess,
        accuracy=GOOD_ACCURACY,
    )
    return dict(gauge=gauge)


def cells(gallery: Gallery, given: Given) -> Json:
    """Return a slice of the cells as integers from -127 to 127, which are 3.5 standard deviations."""
    memory = gallery.copy(given.text("session")).memory
    further = max(0, memory.tensor.dim() - 2)
    chosen = given.text("at", "") or ",".join(["0"] * further)
    at = tuple(Given({"at": each}).integer("at", None, 0, 2**31) for each in chosen.split(",") if each)
    seen = cell_slice(memory, at)
    levels = (seen.numbers * (FINE / REACH)).round().clamp(-FINE, FINE).to(torch.int8)
    return dict(
        rows=levels.tolist(),
        shape=list(seen.shape),
        at=list(at),
        step=list(seen.step),
        deviation=seen.deviation,
        reach=REACH,
    )


def histogram(gallery: Gallery, given: Given) -> Json:
    """Return a histogram of the cells and the normal distribution of equal variance."""
    memory = gallery.copy(given.text("session")).memory
    seen = cell_histogram(memory)
    return dict(
        edges=list(seen.edges),
        counts=list(seen.counts),
        normal=list(seen.normal),
        looked_at=seen.sampled,
        all=reals(memory.tensor).numel(),
        deviation=number(seen.deviation),
        values=seen.distinct,
    )

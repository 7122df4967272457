"""Encodings: numbers, angles and arrays as fillers of any scheme, each with a known kernel."""

from carving.encodings.features import (
    Density,
    FractionalPower,
    Projection,
    Record,
    Sinusoid,
    density,
    fractional_power,
    projection,
    sinusoid,
)
from carving.encodings.levels import (
    Circular,
    Level,
    Random,
    Thermometer,
    circular,
    estimate,
    level,
    random,
    rounded,
    thermometer,
)

__all__ = [
    "Circular",
    "Density",
    "FractionalPower",
    "Level",
    "Projection",
    "Random",
    "Record",
    "Sinusoid",
    "Thermometer",
    "circular",
    "density",
    "estimate",
    "fractional_power",
    "level",
    "projection",
    "random",
    "rounded",
    "sinusoid",
    "thermometer",
]

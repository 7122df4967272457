"""Encodings: numbers, angles and arrays as fillers of any scheme, each with a known kernel."""

from carving.encodings.estimates import estimate
from carving.encodings.features import Density, Projection, Record, Sinusoid, density, projection, sinusoid
from carving.encodings.levels import (
    Circular,
    Level,
    Random,
    Thermometer,
    circular,
    level,
    random,
    rounded,
    thermometer,
)
from carving.encodings.powers import FractionalPower, fractional_power

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

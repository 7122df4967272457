"""Numbers, angles and arrays as fillers of any scheme, each with the kernel that it has."""

from carving.encodings.estimates import estimate
from carving.encodings.features import Projection, Record, Sinusoid, density, projection, sinusoid
from carving.encodings.levels import (
    Circular,
    Level,
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
    "FractionalPower",
    "Level",
    "Projection",
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

"""Objects in a plane: fractional power encoding of coordinates; binding with a displacement moves the scene.

prints:
the cup is at (1.0, -2.0)
moved by (-3, 1) it is at (-2.0, -1.0)
"""

import torch

from carving import make
from carving.encodings import FractionalPower

scheme = make("FHRR", d=8192)
place = FractionalPower(scheme, 2, kernel="gaussian", label="place")
cup, plate = scheme.fillers(["cup", "plate"])
scene = scheme.bind(cup, place([1.0, -2.0])) + scheme.bind(plate, place([-2.0, 2.0]))

steps = torch.arange(-4, 4.5, 0.5)
grid = torch.cartesian_prod(steps, steps)
codes = place(grid)


def where(thing, scene):
    """Return the grid point that is most similar to the position of an object in the scene."""
    return tuple(grid[scheme.similarity(scheme.unbind(scene, thing), codes).argmax()].tolist())


print("the cup is at", where(cup, scene))
print("moved by (-3, 1) it is at", where(cup, scheme.bind(scene, place([-3.0, 1.0]))))

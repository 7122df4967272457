"""Factor scenes: color, shape and place are bound in one vector; a resonator network recovers them.

prints:
found: a green circle on the left, a red square on the right
"""

import torch

from carving import make
from carving.structures import factorize

scheme = make("MAP-I", d=2048)
words = {
    "color": ["red", "green", "blue", "black", "white"],
    "shape": ["circle", "square", "triangle", "star", "cross"],
    "place": ["left", "right", "top", "bottom", "middle"],
}
books = [scheme.fillers(each) for each in words.values()]
scenes = torch.stack([
    scheme.multibind(torch.stack([book[i] for book, i in zip(books, which, strict=True)]))
    for which in [(1, 0, 0), (0, 1, 1)]
])  # fmt: skip
found = factorize(scheme, scenes, books).found.tolist()
named = [[names[i] for names, i in zip(words.values(), each, strict=True)] for each in found]
print("found:", ", ".join(f"a {color} {shape} on the {place}" for color, shape, place in named))

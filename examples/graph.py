"""A directed graph of roads in one vector: query the neighbors of a city, and remove an edge.

prints:
from Oslo: Bergen, Stockholm
from Oslo, one road closed: Stockholm
"""

from carving import make
from carving.structures import Graph

scheme = make("HLB", d=8192)
names = ["Oslo", "Bergen", "Stockholm", "Malmö", "Copenhagen"]
cities = dict(zip(names, scheme.fillers(names), strict=True))
roads = Graph(scheme)
for start, end in [("Oslo", "Bergen"), ("Oslo", "Stockholm"), ("Stockholm", "Malmö"), ("Malmö", "Copenhagen")]:
    roads.add(cities[start], cities[end])


def reached(start):
    """Return the cities whose similarity to the neighbors of `start` exceeds 0.3."""
    likeness = scheme.similarity(roads.neighbors(cities[start]), scheme.fillers(names))
    return ", ".join(name for name, alike in zip(names, likeness.tolist(), strict=True) if alike > 0.3)


print("from Oslo:", reached("Oslo"))
roads.remove(cities["Oslo"], cities["Bergen"])
print("from Oslo, one road closed:", reached("Oslo"))

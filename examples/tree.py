"""A binary tree and a stack, each in one vector: store, query and remove items.

prints:
left of right: Cleo
on top: blue, below it: red
"""

from carving import make
from carving.structures import Stack, Tree, nearest

scheme = make("CGR", d=8192)
names = ["Ada", "Bert", "Cleo", "Dan"]
people = scheme.fillers(names)
tree = Tree(scheme, scheme.fillers(["left", "right"]))
for person, path in zip(people, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
    tree.add(person, path)
print("left of right:", names[nearest(scheme, tree.get((1, 0)), people)])

colors = ["red", "blue"]
plates = scheme.fillers(colors)
stack = Stack(scheme, plates)
top = nearest(scheme, stack.top, plates)
stack.pop(plates[top])
print(f"on top: {colors[top]}, below it: {colors[nearest(scheme, stack.top, plates)]}")

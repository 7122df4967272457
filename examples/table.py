"""A hash table in one vector: add, get, replace and remove values.

prints:
apple: red, banana: yellow, plum: blue
apple: green, banana: yellow, plum: nothing
"""

from carving import make
from carving.structures import HashTable, nearest

scheme = make("FHRR", d=8192)
fruits, colors = ["apple", "banana", "plum"], ["red", "yellow", "blue", "green"]
keys, values = scheme.fillers(fruits), scheme.fillers(colors)
table = HashTable(scheme)
table.add(keys, values[:3])


def shown():
    """Show the color of every fruit, or nothing if no color is similar enough."""
    found = nearest(scheme, table.get(keys), values, threshold=0.3).tolist()
    return ", ".join(f"{key}: {colors[i] if i >= 0 else 'nothing'}" for key, i in zip(fruits, found, strict=True))


print(shown())
table.replace(keys[0], values[0], values[3])
table.remove(keys[2], values[2])
print(shown())

"""What is the dollar of Mexico? Two countries as records, and what in one plays the part of a thing of the other.

prints:
USA -> dollar, Mexico -> peso
the dollar of Mexico is the peso
"""

import torch

from carving import make
from carving.structures import hash_table, nearest

scheme = make("MAP-B", d=10_000)
roles = scheme.fillers(["name", "capital", "currency"])
words = ["USA", "Washington", "dollar", "Mexico", "Mexico City", "peso"]
things = scheme.fillers(words)
usa, mexico = hash_table(scheme, roles, things[:3]), hash_table(scheme, roles, things[3:])

money = [words[nearest(scheme, scheme.unbind(country, roles[2]), things)] for country in (usa, mexico)]
print(f"USA -> {money[0]}, Mexico -> {money[1]}")

# What the dollar is bound with in one record is its role, about; the other record unbound from it shows its like.
role = scheme.unbind(usa, things[2])
like = scheme.unbind(mexico, torch.where(role < 0, -1.0, 1.0))
print(f"the dollar of Mexico is the {words[nearest(scheme, like, things)]}")

"""What is the dollar of Mexico? Analogy between two records: the value that fills the same role in the other one.

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

# Unbinding the dollar from its record gives a noisy version of its role, which is then unbound from the other record.
role = scheme.unbind(usa, things[2])
like = scheme.unbind(mexico, torch.where(role < 0, -1.0, 1.0))
print(f"the dollar of Mexico is the {words[nearest(scheme, like, things)]}")

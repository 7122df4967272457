"""Numbers as values: opening hours encoded on a circle of 24, stored and recalled with OSC.

prints:
monday opens 8, closes 18
sunday opens 11, closes 0
"""

from carving import OSC, Memory
from carving.encodings import circular, estimate

scheme = OSC(d=96, p=2, compact=True)
memory = Memory(scheme, vocabulary=range(24), fillers=circular(scheme, 24, label="hour"))
memory.store([
    (("monday", "opens"), 8),
    (("monday", "closes"), 18),
    (("sunday", "opens"), 11),
    (("sunday", "closes"), 0),
])  # fmt: skip
for day in ("monday", "sunday"):
    opens, closes = (round(estimate(memory.recall(day, what, top=3), period=24)) % 24 for what in ("opens", "closes"))
    print(f"{day} opens {opens}, closes {closes}")

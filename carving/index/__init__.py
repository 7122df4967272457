"""An index of compact fillers: questions to ten million candidates look at a few of them, and say how surely.

A compact filler is p unit vectors. Each falls to the nearest of some fixed directions (`directions.py`), so that a
filler lies in one of m^p cells (`segments.py`). What a context shows tells in which cells its filler may be
(`looking.py`); how many of them must be looked at is told by theory (`dial.py`). The best that were found are scored
again exactly (`asked.py`).
"""

from carving.index.segments import Index

__all__ = ["Index"]

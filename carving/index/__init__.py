"""An index of compact fillers: queries score a shortlist of ten million candidates, with a known recall.

A compact filler is p unit vectors. Each is assigned to the nearest of some fixed directions (`directions.py`), so that
a filler lies in one of m^p buckets (`segments.py`). The core of a query ranks the buckets (`looking.py`); theory says
how many of them must be searched (`dial.py`). The shortlist is scored again exactly (`asked.py`).
"""

from carving.index.segments import Index

__all__ = ["Index"]

"""Queries of a memory: the best candidates and their probabilities, sets of fillers, and joint decoding.

`best` finds the k best candidates, `likelihood` their probabilities; `sets` finds several fillers in one context and
`together` decodes all contexts jointly. `sample`, `numbers` and `subsets` estimate the strengths of pairs and the
number of values under a path.
"""

from carving.inference.answer import Answer
from carving.inference.best import top
from carving.inference.ranking import Best
from carving.inference.together import decode

__all__ = ["Answer", "Best", "decode", "top"]

"""Queries of a memory: the best candidates and their probabilities, sets of fillers, and joint decoding.

`top_k` finds the k best candidates, `likelihood` their log odds, `calibration` the probabilities of consolidated
memories; `sets` finds several fillers in one context, and `amp` decodes all contexts jointly. `sample` estimates the
strengths of pairs.
"""

from carving.inference.amp import decode
from carving.inference.answer import Answer
from carving.inference.top_k import Best, top

__all__ = ["Answer", "Best", "decode", "top"]

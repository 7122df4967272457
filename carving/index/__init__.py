"""An index of compact fillers: queries score a shortlist of ten million candidates, with a known recall."""

from carving.index.buckets import BucketIndex, supports
from carving.index.ranking import CandidateIndex, IndexQuery, rank

__all__ = ["BucketIndex", "CandidateIndex", "IndexQuery", "rank", "supports"]

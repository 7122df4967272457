"""Answers: how a memory is asked. `best` finds the best candidates, `likelihood` says how probable they are, `sets` and
`together` find several fillers in one context and what all contexts hold. `sample`, `numbers` and `subsets` know how
strongly pairs are held, how many leaves paths hold, and what that makes of probabilities. `sieve` bounds what scores in
few bits may miss, `precision` says where they are faster, `sifting` gives float32's answers by them.
"""

from carving.answers.answer import Answer
from carving.answers.best import top
from carving.answers.precision import get_sieve, set_sieve
from carving.answers.ranking import Best
from carving.answers.together import decode

__all__ = ["Answer", "Best", "decode", "get_sieve", "set_sieve", "top"]

"""A turnstile as a finite-state automaton in one vector.

prints:
locked, coin -> unlocked
unlocked, push -> locked
locked, push -> locked
locked, coin -> unlocked
unlocked, coin -> unlocked
"""

from carving import make
from carving.structures import Automaton, nearest

scheme = make("BSC", d=8192)
states, tokens = ["locked", "unlocked"], ["coin", "push"]
state, token = (dict(zip(names, scheme.fillers(names), strict=True)) for names in (states, tokens))
turnstile = Automaton(scheme)
for start, act, end in [
    ("locked", "coin", "unlocked"),
    ("locked", "push", "locked"),
    ("unlocked", "push", "locked"),
    ("unlocked", "coin", "unlocked"),
]:
    turnstile.add(state[start], token[act], state[end])

now = "locked"
for act in ["coin", "push", "push", "coin", "coin"]:
    then = states[nearest(scheme, turnstile.step(state[now], token[act]), scheme.fillers(states))]
    print(f"{now}, {act} -> {then}")
    now = then

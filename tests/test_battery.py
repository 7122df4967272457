"""Answers of every scheme to a fixed battery of queries, compared with recorded ones.

Laws say what answers must satisfy; the battery says that they are those of before: values exactly, scores and
probabilities to the rounding of float32. `python tests/test_battery.py` records them anew, for a change that is meant
to change them.
"""

import json
import math
import sys
import warnings
from pathlib import Path

import pytest
import torch

from carving import OSC, SCHEMES, Memory, make
from carving.errors import BadValue, Overfull

RECORDED = Path(__file__).parent / "data" / "battery.json"

SIDES = {"OSC": 32, "CliffordOSC": 64}
SCHEMES_TO_ASK = {
    **{name: lambda name=name: make(name, d=SIDES.get(name, 1024)) for name in SCHEMES if name != "TPR"},
    "TPR": lambda: make("TPR", d=64, whole_path=True),
    "TPR of depth 2": lambda: make("TPR", d=16, depth=2),
    "OSC of order 1": lambda: OSC(600, 1),
    "OSC of order 3": lambda: OSC(16, 3),
    "OSC of order 4": lambda: OSC(9, 4),
    "OSC, paper": lambda: OSC.paper(48),
    "OSC, compact": lambda: OSC(32, compact=True),
    "OSC, compact, order 3": lambda: OSC(14, 3, compact=True),
    "OSC, spread": lambda: OSC(32, compact=True, spread=0.5),
    "OSC, dictionary": lambda: OSC(32, compact=True, dictionary=16),
    "OSC, carved": lambda: OSC(24, carved=2),
    "HLB, raw": lambda: make("HLB", d=512),
    "MAP-C, raw": lambda: make("MAP-C", d=512, memory="raw"),
    "BSC, raw": lambda: make("BSC", d=512, memory="raw"),
}
PAIRS = [((f"place {i}", ("kind", "sound")[i % 2]), f"value {i * i % 23}") for i in range(60)]
SEVERAL = [(("place 3", "sound"), "value 1"), (("place 4", "kind"), "value 2"), (("place 4", "kind"), "value 5")]
EMPTY = [(f"nowhere {i}", "kind") for i in range(6)]
ASKED = [path for path, _ in PAIRS[:24]] + EMPTY


def described(answer):
    return [answer.value, answer.score, answer.probability, answer.found]


def listed(answers):
    return [[described(answer) for answer in each] for each in answers]


def queries(memory):
    """The answers to every kind of query that a memory has."""
    wrong = [(path, "value 4") for path, _ in PAIRS[:10]]
    found = {
        "recall": [described(answer) for answer in memory.recall_many(ASKED)],
        "recall, no empty paths": [described(each) for each in memory.recall_many(ASKED[:12], prior_empty=0.0)],
        "top": listed(memory.recall_many(ASKED[:8] + EMPTY[:2], top=3)),
        "candidates": [described(each) for each in memory.recall_many(ASKED[:12], candidates=["value 1", "value 4"])],
        "recognize": [described(each) for each in memory.recognize_many(PAIRS[:10] + wrong)],
    }
    if memory.has_probabilities:
        found["sets"] = [
            sorted(each, key=lambda answer: answer[0]) for each in listed(memory.recall_sets(ASKED[:10] + EMPTY[:2]))
        ]
        found["where"] = sorted(
            [[list(path), *described(each)] for path, each in memory.where("value 4", [path for path, _ in PAIRS])]
        )
    return found


def summed(scheme):
    memory = Memory(scheme, keep_paths=True)
    memory.store(PAIRS[:40])
    memory.store(PAIRS[40:] + SEVERAL)
    memory.store([(("loud", "kind"), "value 7")], weight=2.0)
    return memory


def asked_of(name):
    """All answers of a scheme: of a sum, after forgetting, decoded jointly, quantized and consolidated."""
    scheme = SCHEMES_TO_ASK[name]()
    memory = summed(scheme)
    answers = {"sum": queries(memory)}
    if memory.has_probabilities:
        decoded = memory.decode()
        answers["joint"] = {"answers": [described(each) for each in decoded], "converged": decoded.converged}
    not_found = memory.forget([*PAIRS[:5], (("nowhere 9", "kind"), "value 3")])
    answers["forgotten"] = {"left": len(not_found), "pairs": memory.pairs, **queries(memory)}
    if not memory.has_probabilities:
        return answers
    once = Memory(scheme, keep_paths=True)
    once.store(PAIRS)
    try:
        quantized = once.quantize(bits=3)
    except BadValue:  # a scheme whose bound pairs differ much in their norms
        answers["quantized"] = "refused"
    else:
        answers["quantized"] = queries(quantized)
        answers["quantized"]["joint"] = [described(each) for each in quantized.decode(prior_empty=0.0)]
    if name in ("OSC, compact", "HLB", "TPR"):  # solved in double precision, where rounding does not grow
        wide = Memory(scheme.like(dtype=torch.float64))
        wide.store(PAIRS)
        outcome = wide.consolidate(PAIRS)
        answers["consolidated"] = {"before": outcome.before, "after": outcome.after, **queries(wide)}
    return answers


def indexed():
    """The answers by an index of many values."""
    memory = Memory(OSC(48, compact=True), vocabulary=[f"value {i}" for i in range(5_000)])
    memory.store(PAIRS)
    some = memory.recall_many(ASKED, recall_target=0.9)
    return {"recall": [described(each) for each in some], "top": listed(memory.recall_many(ASKED[:5], top=2))}


BATTERY = {**{name: lambda name=name: asked_of(name) for name in SCHEMES_TO_ASK}, "index": indexed}


def same(one, other, where=""):
    """Compare recorded answers with new ones; numbers to the rounding of float32."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            same(one[key], other[key], f"{where} / {key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, each in enumerate(zip(one, other, strict=True)):
            same(*each, f"{where} [{place}]")
    elif isinstance(one, float) and not (math.isnan(one) and math.isnan(other)):
        assert math.isclose(one, other, rel_tol=2e-3, abs_tol=2e-4), (where, one, other)
    elif not isinstance(one, float):
        assert one == other, (where, one, other)


@pytest.mark.parametrize("name", BATTERY)
def test_answers_are_the_recorded_ones(name):
    same(json.loads(RECORDED.read_text())[name], json.loads(json.dumps(BATTERY[name]())), name)


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    warnings.simplefilter("ignore", Overfull)
    RECORDED.parent.mkdir(exist_ok=True)
    recorded = {name: rounded(make_answers()) for name, make_answers in BATTERY.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answers)}" for name, answers in recorded.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n")
    print(f"Recorded {len(recorded)} in {RECORDED}.", file=sys.stderr)

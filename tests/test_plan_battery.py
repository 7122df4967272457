"""Plans and predictions for a fixed battery of requirements, compared with recorded ones.

Sizes, parameters and numbers of pairs exactly, accuracies to a tolerance. `python tests/test_plan_battery.py` records
them anew, for a change that is meant to change them.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from carving.planner import fixed_point, osc_accuracy, tpr_accuracy, vsa_accuracy
from carving.planner.plan import Plan, drafts, pairs_within, plan, plan_within, plans, plans_within, predict

pytestmark = pytest.mark.xdist_group("plans")  # in one process, so that what plans draw is drawn once

RECORDED = Path(__file__).parent / "data" / "plans.json"
TOLERANCE = 1e-4  # of accuracies

OSC = dict(scheme="OSC")
COMPACT = dict(scheme="OSC", compact=True)
SHARED = {1: 300, 2: 60, 5: 20, 30: 2}
BATTERY = {
    "plan": lambda: plan(400, 300),
    "plan of few pairs": lambda: plan(3, 4),
    "plan without a codebook": lambda: plan(300, 200, 0.95, codebook=False, dtype=torch.float16),
    "plan of the paper": lambda: plan(300, 300, scheme="OSC", compact=False, basis="gaussian", slack=0),
    "plan of narrow contexts": lambda: plan(300, 300, 0.9, **OSC, p=2, widest=1, slack=0.5),
    "plan, shared": lambda: plan(200, 100, 0.95, 2, **COMPACT, p=2),
    "plan, shared unevenly": lambda: plan(580, 80, 0.9, SHARED, **OSC, p=2, compact=False),
    "plan, shared, of a TPR": lambda: plan(580, 80, 0.9, SHARED, scheme="TPR"),
    "plan, shared, of an HLB": lambda: plan(300, 80, 0.9, 3, scheme="HLB"),
    "plan of a dictionary": lambda: plan(2_000, 5_000, 0.98, **COMPACT, dictionary=1024),
    "plan, joint": lambda: plan(300, 200, joint=True),
    "plan, joint, spread": lambda: plan(300, 200, **OSC, p=3, joint=True, spread=1.2),
    "plan, joint, quantized": lambda: plan(300, 200, **COMPACT, p=2, joint=True, bits=2, spread=0.6),
    "plan, joint, of an HLB": lambda: plan(300, 200, scheme="HLB", joint=True),
    "plan, quantized": lambda: plan(300, 200, **COMPACT, p=2, bits=3),
    "plan of the fewest bytes": lambda: plan(300, 200, scheme="HLB", bits="auto"),
    "plans": lambda: plans(150, 100, 0.97),
    "plans, quantized": lambda: plans(150, 100, 0.97, p=2, compact=True, bits="auto"),
    "plans, where not all can": lambda: plans(400, 4_000, 0.9, 200, p=2, widest=0.4, compact=True),
    "plan within": lambda: plan_within(20_000, 200, 0.95),
    "plan within, joint": lambda: plan_within(20_000, 500, **COMPACT, p=2, joint=True),
    "plan within, shared": lambda: plan_within(20_000, 100, 0.9, {1: 3, 4: 1}, **COMPACT, p=2),
    "plans within": lambda: plans_within(10_000, 50, p=2, compact=True),
    "pairs within": lambda: [
        pairs_within(300, 0.9, d=40),
        pairs_within(300, 0.9, 3, d=40, p=3, k1=6, compact=True),
        pairs_within(300, 0.9, d=900, scheme="HLB"),
        pairs_within(300, 0.9, 2, d=60, scheme="TPR"),
        pairs_within(300, d=60, p=2, k1=8, compact=True, joint=True),
        pairs_within(300, d=40, p=2, compact=True, bits=2),
        pairs_within(10_000, 0.9, 5, d=5),
    ],
    "predictions": lambda: [
        predict(300, 200, d=40),
        predict(300, 200, d=40, draft=True),
        predict(300, 200, 3, d=16, p=3, k1=4),
        predict(300, 200, d=30, p=2, k1=5, compact=True, basis="gaussian"),
        predict(300, 200, d=30, p=2, k1=6, compact=True, joint=True, spread=0.9),
        predict(300, 200, d=30, p=2, k1=6, compact=True, joint=True, bits=3),
        predict(300, 200, d=9, p=4, k1=3),
        predict(300, 200, 2, d=40, scheme="TPR"),
        predict(300, 200, d=40, scheme="TPR", bits=1),
        predict(300, 200, d=2_000, scheme="HLB", bits=4),
        predict(580, 80, SHARED, d=60, p=2, k1=20),
        predict(5_000, 3_000, d=60, p=2, compact=True, dictionary=64),
        osc_accuracy(60, 3, 7, 3_000, 500, basis="gaussian"),
        tpr_accuracy(60, 200, 300, 3),
        vsa_accuracy(4_096, 300, 1_000, 4),
        *fixed_point(0.2, 2, 6, 300, 0.5),
    ],
    "drafts": lambda: [list(each) for each in drafts(1_000, 500)],
}


def described(result):
    """What is recorded of a result: of a plan its fields."""
    if isinstance(result, list):
        return [described(each) for each in result]
    return asdict(result) if isinstance(result, Plan) else result


def check_equal(found, recorded):
    if isinstance(recorded, dict):
        assert found.keys() == recorded.keys()
        for key, value in recorded.items():
            check_equal(found[key], value)
    elif isinstance(recorded, list):
        assert len(found) == len(recorded)
        for pair in zip(found, recorded, strict=True):
            check_equal(*pair)
    else:
        assert found == (pytest.approx(recorded, abs=TOLERANCE) if isinstance(recorded, float) else recorded)


@pytest.mark.parametrize("name", BATTERY)
def test_plans_are_those_recorded(name):
    check_equal(described(BATTERY[name]()), json.loads(RECORDED.read_text())[name])


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({name: described(make()) for name, make in BATTERY.items()}, indent=1) + "\n")
    sys.stdout.write(f"recorded {len(BATTERY)} results in {RECORDED}\n")

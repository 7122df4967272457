"""Prediction of the accuracy and the capacity of memories, from theory.

`carving.plan` chooses the smallest memory for a number of pairs; `plan_within`, `pairs_within` and `predict` answer the
inverse questions. In this package `plan` is the module; the function is `carving.plan`.
"""

from carving.planner.families import osc_accuracy, tpr_accuracy, vsa_accuracy
from carving.planner.plan import Plan, pairs_within, plan_within, plans, plans_within, predict
from carving.planner.state_evolution import fixed_point

__all__ = [
    "Plan",
    "fixed_point",
    "osc_accuracy",
    "pairs_within",
    "plan_within",
    "plans",
    "plans_within",
    "predict",
    "tpr_accuracy",
    "vsa_accuracy",
]

"""Prediction: what a memory will hold, before there is one.

`carving.plan` chooses a memory; here are the questions the other way round, and what predictions are made of. (`plan`
itself is the module here: its function is `carving.plan`.)
"""

from carving.prediction.alone import osc_accuracy, tpr_accuracy, vsa_accuracy
from carving.prediction.plan import Plan, pairs_within, plan_within, plans, plans_within, predict
from carving.prediction.together import fixed_point

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

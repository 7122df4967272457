"""What goes beyond the paper, one file an experiment."""

NAMES = (
    "reuse",
    "compact",
    "compact-accuracy",
    "joint",
    "joint-capacity",
    "bits-capacity",
    "joint-prediction",
    "sealed-prediction",
    "capacity-prediction",
    "calibration",
    "trust-calibration",
    "basis",
    "bits",
    "information-rate",
    "recall-in-context",
    "large-vsa",
    "consolidated",
    "factors",
    "classification",
    "label-frontier",
)

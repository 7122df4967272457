"""What goes beyond the paper, one file an experiment."""

NAMES = (
    "reuse",
    "compact",
    "compact-accuracy",
    "joint",
    "joint-capacity",
    "bits-capacity",
    "joint-prediction",
    "quantized-prediction",
    "capacity-prediction",
    "calibration",
    "answer-calibration",
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

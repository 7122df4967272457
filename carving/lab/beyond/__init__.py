"""What goes beyond the paper, one file an experiment."""

NAMES = (
    "reuse",
    "compact",
    "compact-accuracy",
    "joint",
    "joint-capacity",
    "joint-prediction",
    "capacity-prediction",
    "calibration",
    "trust-calibration",
    "basis",
    "large-vsa",
    "consolidated",
)

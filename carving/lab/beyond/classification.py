"""Not in the paper: digits by centroids, for every scheme and encoding, with torch-hd's beside ours."""

from carving.lab.experiment import Experiment, Setting, TablePanel, trials
from carving.lab.measures.classification import classification
from carving.schemes.architectures import ARCHITECTURES

NUMBERS = 10_000
SPARSE = ("BSDC-S", "BSDC-CDT", "BSDC-SEG")
WITHOUT = {"thermometer": (*SPARSE, "CGR"), "projection": SPARSE, "sinusoid": SPARSE}  # whose space does not allow it
ENCODINGS = ("level", "thermometer", "projection", "sinusoid")


def settings(d: int, schemes: tuple[str, ...], encodings: tuple[str, ...] = ENCODINGS) -> list[Setting]:
    """Every scheme with every encoding that it has."""
    return [
        {"scheme": scheme, "d": d, "encoding": encoding, "refinement": "margin"}
        for encoding in encodings
        for scheme in schemes
        if scheme not in WITHOUT.get(encoding, ())
    ]


EVERY = (*ARCHITECTURES, "OSC", "TPR")
EXPERIMENT = Experiment(
    name="classification",
    title="digits by centroids, 16 schemes, four encodings, and torch-hd",
    source="nothing: it classifies labels of many, by other heads",
    notes="scikit-learn's 1,797 digits, 40 % of them for the test, another split a trial; d real numbers a vector or "
    "memory, 33 levels. `refined` goes over the points 20 times, also for those that are nearly wrong. `torch-hd` is "
    "its own encoding and centroid on the same split, where it has the like; where it is not installed, the column is "
    "left out. Architectures differ by their draws alone as long as d is large; of OSC's the likeness of arrays is to "
    "the power of 2.",
    measure=classification,
    scales={
        "smoke": (trials(1, settings(256, ("MAP-B", "OSC"), ("level",)), settings(256, ("HRR",), ("sinusoid",))),),
        "small": (trials(1, settings(1024, EVERY)),),
        "paper": (trials(2, settings(NUMBERS, EVERY)),),
    },
    panels=tuple(
        TablePanel(("scheme",), "encoding", quantity, title=title)
        for quantity, title in (
            ("centroids", "centroids alone"),
            ("refined", "refined"),
            ("torch-hd", "torch-hd's centroids"),
        )
    ),
    unpublished="nobody has published these together; torch-hd is measured in the same trial.",
)

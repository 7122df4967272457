"""Not in the paper: what label models find against what they cost, ours and those that people use."""

from carving.lab.experiment import Experiment, Points, TablePanel, grid, trials
from carving.lab.measures.rivals import METHODS, PREDICTION, SIZE, TRAINING, Rivals

SETS = ("Bibtex", "Delicious", "Mediamill", "Eurlex-20K")

EXPERIMENT = Experiment(
    name="label-frontier",
    title="accuracy of label models against training time and size",
    source="nothing: it has no times, and no rivals but heads",
    notes="Test part, over the points that have labels; processor time of one thread. `best` and `fast` are our "
    "recipes, PLT and BR napkinxc's label trees and one-vs-rest with its own settings, `PLT x 3` three trees together. "
    "`benchmarks/labels_accuracy.py FOLDER` makes the same rows for every data set of a folder.",
    measure=Rivals(),
    scales={
        "smoke": (trials(1, grid(dataset="synthetic", method=["fast", "PLT"])),),
        "small": (trials(1, grid(dataset=list(SETS), method=["fast", "PLT", "PLT x 3"])),),
        "paper": (trials(5, grid(dataset=list(SETS), method=list(METHODS))),),
    },
    panels=(
        *(
            Points(cost, "nDCG@5", ("method",), title=f"{name}, {cost}", equal=False, only={"dataset": name})
            for cost in (TRAINING, SIZE)
            for name in (*SETS, "synthetic")
        ),
        *(
            TablePanel(("dataset",), "method", quantity, title=quantity)
            for quantity in ("nDCG@5", "PSnDCG@5", TRAINING, PREDICTION, SIZE)
        ),
    ),
    unpublished="the paper has neither times nor sizes.",
)

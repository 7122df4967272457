"""Not in the paper: pairs named in context without training, by fast-weight memories and by OSC."""

from carving.lab.experiment import Experiment, Lines, Setting, TablePanel, trials
from carving.lab.measures.in_context import FAMILIES, recall_in_context

LOADS = (64, 128, 256, 384, 512, 1000)


def settings(loads: tuple[int, ...], most: int, **state: int) -> list[Setting]:
    """Every memory with every number of pairs, and a state of so many numbers or bits; solved ones with few."""
    return [
        {"memory": name, "causal": "causal" if family.causal else "not causal", "N": load, **state}
        for load in loads for name, family in FAMILIES.items() if load <= most or name != "OSC consolidated"
    ]  # fmt: skip


NUMBERS, BITS = {"numbers": 4096}, {"bits": 4096 * 8}
SERIES = ("memory", "causal")
EXPERIMENT = Experiment(
    name="recall-in-context",
    title="recall in context without training",
    source="nothing",
    notes="Keys and values are random vectors, one of 4,096 values is named for each key. Every memory chooses its "
    "width (and how many bits a number has, of the state's in all) by a try with other vectors. What is causal writes "
    "a pair when it comes and is asked for one key, as a layer of a network would; the others look at all pairs or "
    "ask for all keys at once, which no causal layer can. Mesa's state holds the Gram matrix of its keys.",
    measure=recall_in_context,
    scales={
        "smoke": (trials(1, settings((32,), 32, **NUMBERS)),),
        "small": (trials(2, settings((128, 256, 384), 384, **NUMBERS), settings((128, 256), 0, **BITS)),),
        "paper": (trials(3, settings(LOADS, 384, **NUMBERS), settings(LOADS[:5], 128, **BITS)),),
    },
    panels=(
        Lines("N", "right", SERIES, title="a state of 4,096 numbers", only={"bits": None}, log_x=True),
        Lines("N", "right", SERIES, title="a state of 4 KB, any bits a number", only={"numbers": None}, log_x=True),
        TablePanel(("memory", "causal"), "N", "width", title="width of keys, or k1", only={"bits": None}),
        TablePanel(("memory", "causal"), "N", "bits a number", title="bits a number", only={"numbers": None}),
    ),
    unpublished="published figures are of trained models, whose keys and values are learned.",
)

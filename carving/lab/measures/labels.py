"""Multi-label learning: a network and a head, trained on one part of a data set, tested on another."""

from dataclasses import dataclass
from pathlib import Path

import torch

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.datasets import SYNTHETIC, dataset_files, parts
from carving.multilabel import metrics
from carving.multilabel.heads import Head
from carving.multilabel.osc import OSCHead
from carving.multilabel.training import Settings, make_network, predict, train
from carving.multilabel.vectors import VectorHead

HEADS = ("VTB", "MAP", "HLB", "OSC")
# fmt: off
#                  paper: epochs, batch; HLB's code  hidden  e  drop  width  gamma  scale   d   pool
HYPER = {
    "Bibtex":         ((10, 64),   (25, 64),   512,  1, 0.0,  400,  0.8,  0.25, 125, 1),
    "Delicious":      ((10, 64),   (25, 256),  512,  1, 0.25, 400,  0.8,  0.5,  125, 1),
    "Mediamill":      ((10, 64),   (50, 64),   512,  1, 0.0,  400,  1.0,  1.0,  125, 1),
    "Eurlex-4K":      ((10, 256),  (25, 64),   512,  2, 0.35, 1600, 0.85, 0.5,  200, 1),
    "Eurlex-4.3K":    ((25, 256),  (25, 64),   512,  1, 0.0,  400,  0.98, 1.0,  100, 1),
    "Wiki10-31K":     ((25, 16),   (25, 64),   512,  1, 0.25, 3000, 0.98, 0.5,  300, 1),
    "Amazon-13K":     ((25, 1024), (25, 64),   512,  1, 0.25, 3000, 0.98, 0.5,  300, 7),
    "Delicious-200K": ((25, 8),    (25, 64),   1024, 1, 0.25, 3000, 0.98, 0.5,  300, 7),
    "synthetic":      ((6, 16),    (8, 16),    64,   1, 0.0,  64,   0.9,  1.0,  24,  1),
}
# fmt: on
GAMMA = {("Mediamill", "VTB"): 0.98, ("Eurlex-4K", "VTB"): 0.98}  # the paper tells none: the code's in both
CODE: dict[tuple[str, str], Setting] = {  # where the code goes its own ways, beside epochs and batches
    **{("Bibtex", head): {"trainable": True, "missing": False} for head in ("HLB", "MAP")},
    **{("Eurlex-4K", head): {"width": 1500} for head in ("HLB", "MAP")},
    **{("Amazon-13K", head): {"missing": False} for head in HEADS},
    ("Bibtex", "VTB"): {"drop": 0.25},
    ("Delicious", "VTB"): {"batch": 64},
}


@dataclass(frozen=True)
class FromFiles:
    """A measure over data sets of a folder; a row depends on its setting, its seed and the files."""

    folder: Path | None = None

    def __call__(self, setting: Setting, seed: int) -> Measured:
        """Quality on the test part after training with the setting's head and hyper-parameters, shares of 1."""
        torch_seed = seed % 2**63
        with torch.inference_mode(False):
            whole, test = parts(self.folder, setting["dataset"], setting.get("pool", 1))
            data = whole.labeled()
            head, settings = head_of(setting, data.labels.shape[1], seed), settings_of(setting)
            network = make_network(data, head, settings, torch_seed)
            train(network, head, data, settings, seed=torch_seed)
            ranked = predict(network, head, test.features, 5)[1].numpy()
        propensities = metrics.propensities(whole.labels)
        batched = metrics.measures(ranked, test.labels, propensities, (5,), batch_size=settings.batch_size)
        return metrics.measures(ranked, test.labels, propensities) | {
            "nDCG@5 by batch": batched["nDCG@5"],
            "PSnDCG@5 by batch": batched["PSnDCG@5"],
            "unlabeled": int((test.labels.getnnz(axis=1) == 0).sum()),
            "parameters": sum(p.numel() for module in (network, head) for p in module.parameters()),
        }

    def has(self, name: str) -> bool:
        """Whether a data set is there."""
        return name == SYNTHETIC or (self.folder is not None and dataset_files(self.folder, name) is not None)


def head_of(setting: Setting, labels: int, seed: int) -> Head:
    """The head of a setting, its vectors drawn from the seed."""
    common = dict(missing=setting["missing"], trainable=setting["trainable"], seed=seed)
    if setting["head"].startswith("OSC"):
        return OSCHead(labels, setting["d"], preset=setting["preset"], basis="gaussian", **common)
    return VectorHead(setting["head"], labels, setting["width"], scale=setting.get("scale", 1.0), **common)


def setting_of(name: str, head: str, variant: str, preset: str = "third") -> Setting:
    """What the paper says of a head on a data set, or the code of HLB, which fills what the paper leaves open."""
    paper, code, hidden, expansion, drop, width, gamma, scale, d, pool = HYPER[name]
    epochs, batch = paper if variant == "paper" else code
    own = dict(d=d, preset=preset) if head.startswith("OSC") else dict(width=width)
    return (
        dict(dataset=name, head=head, variant=variant, pool=pool, hidden=hidden, expansion=expansion, drop=drop)
        | dict(epochs=epochs, batch=batch, gamma=GAMMA.get((name, head), gamma), missing=True, trainable=False)
        | (own | dict(scale=scale) if head == "HLB" else own)
        | (CODE.get((name, head), {}) if variant == "code" else {})
    )


def settings_of(setting: Setting) -> Settings:
    """How the setting's network is made and trained."""
    return Settings(
        dropout=setting["drop"],
        batch_size=setting["batch"],
        **{key: setting[key] for key in ("hidden", "expansion", "epochs", "gamma")},
    )

"""Label models in files: what a file claims is compared with what it holds before anything is built."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from carving.errors import BadValue
from carving.multilabel import keeping
from carving.multilabel.heads import Head
from carving.multilabel.keeping import Kept
from carving.multilabel.maps import Map
from carving.multilabel.networks import Blend, Scaling
from carving.multilabel.scorer import Matcher, Rerankers
from carving.multilabel.training import Settings, network_of
from carving.multilabel.vectors import Claim, claimed, make_head
from carving.multilabel.views import View
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import (
    KINDS,
    BadFile,
    Tensors,
    all_finite,
    check_replaceable,
    check_version,
    parsing,
    read_tensors,
    refusing_damage,
    write_tensors,
)
from carving.validate import check_integer, show_bytes

FORMAT = "carving labels 6"
WAVES = 2**16  # waves at most, and each takes as many numbers as there are features
FREE, TIMES = 2**28, 2**10  # bytes that a head may take for labels' codes: so many, and so many times the file's own


class BadModel(BadFile):
    """A file that is not a label model, or is corrupt."""


@dataclass(frozen=True)
class Model:
    """What a file holds."""

    name: str  # of the head
    head: Head | None  # None where there are no networks
    network: Blend | None
    settings: list[Settings]
    propensities: Tensor
    tail_bias: float
    seed: int
    kept: Kept  # what is remembered beside
    matcher: Matcher | None = None
    rerankers: Rerankers | None = None
    recipe: str = "best"
    features: int = 0
    nothing: bool = False  # whether head and maps have one more label, which stands for having none


def write(path: Place, model: Model, force: bool = False) -> None:
    """Write the model, whole or not at all; what is no label model is not replaced, unless `force` is given."""
    check_replaceable(path, "label model", force)
    tensors, facts = _networks(model)
    facts |= dict(tail_bias=model.tail_bias, seed=model.seed, nothing=model.nothing)
    tensors["propensities"] = model.propensities
    remembered, beside = keeping.packed(model.kept)
    tensors |= beside
    more, said = _maps(model)
    tensors, facts = tensors | more, facts | said
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if not all_finite(tensor):
            raise BadValue(
                f"The model's tensor {name} contains NaN or infinity. Train again with a lower learning rate."
            )
    metadata = dict(format=FORMAT, facts=json.dumps(facts | dict(kept=remembered)))
    write_tensors(path, "label model", tensors, metadata, force)


def _networks(model: Model) -> tuple[Tensors, dict[str, Any]]:
    """What a file holds and says of networks and their head."""
    tensors: Tensors = {}
    for name, module in (("network", model.network), ("head", model.head)):
        if module is not None:
            tensors |= {f"{name}/{key}": tensor for key, tensor in module.state_dict().items()}
    network = model.network
    return tensors, dict(
        head=model.name,
        head_options={} if model.head is None else model.head.options,
        labels=len(model.propensities),
        features=model.features if network is None else network.features,
        settings=[asdict(settings) for settings in model.settings],
        scaling=[] if network is None else network.scalings,
        weights=[] if network is None else network.weights,
        units=[] if network is None else network.units,
    )


def _maps(model: Model) -> tuple[Tensors, dict[str, Any]]:
    """What a file holds and says of a matcher and rerankers."""
    tensors: Tensors = {}
    facts: dict[str, Any] = dict(recipe=model.recipe, matcher=None, rerankers=None, hidden=[])
    if model.matcher is not None:
        view = model.matcher.view
        seen = {
            key: torch.from_numpy(array) for key, array in (("shift", view.shift), ("scale", view.scale)) if len(array)
        }
        tensors |= {f"matcher/{key}": tensor for key, tensor in (seen | model.matcher.map.tensors()).items()}
        for number, layer in enumerate(model.matcher.hidden):
            tensors |= {f"hidden/{number}/{key}": tensor for key, tensor in layer.tensors().items()}
        facts["matcher"] = dict(waves=view.waves, seed=view.seed, length=view.length, power=view.power)
        facts["hidden"] = [len(layer.bias) for layer in model.matcher.hidden]
    if model.rerankers is not None:
        tensors |= {f"rerankers/{key}": tensor for key, tensor in model.rerankers.map.tensors().items()}
        facts["rerankers"] = dict(trust=model.rerankers.trust, shortlist=model.rerankers.shortlist)
    return tensors, facts


def read(path: Place) -> Model:
    """The model of a file; one that is none, or is not as it was written, is a `BadModel`."""

    def check_format(metadata: dict[str, str]) -> None:
        format = metadata.get("format", "")
        if not format.startswith(KINDS["label model"]):
            raise BadModel(
                f"{shown(path)} is a safetensors file, but not a label model. Pass a file that "
                "MultiLabelClassifier.save() wrote."
            )
        check_version(path, format, FORMAT, "Train the model again.", BadModel)

    metadata, tensors = read_tensors(path, "model", check_format, BadModel)
    with refusing_damage(path, BadModel), parsing():
        return _model(json.loads(metadata["facts"]), tensors)


def _model(facts: dict[str, Any], tensors: Tensors) -> Model:
    """The model, made of what lies in the file; only the head is made anew, once its claims are known to be true."""
    propensities = tensors["propensities"]
    if propensities.shape != (facts["labels"],) or propensities.dtype != torch.float64:
        raise BadValue(
            f"expected propensities of {facts['labels']} labels as float64, got {tuple(propensities.shape)}, "
            f"{propensities.dtype}"
        )
    for name, tensor in tensors.items():
        if not all_finite(tensor):
            raise BadValue(f"tensor {name} contains NaN or infinity")
    _check_claims(facts, tensors)
    kept = keeping.unpacked(facts["kept"], tensors, facts["labels"], facts["features"])
    nothing = facts["nothing"]
    facts = facts | dict(labels=facts["labels"] + nothing)  # what head and maps score
    matcher = _matcher(facts, tensors)
    rerankers = _rerankers(facts["rerankers"], _below("rerankers/", tensors), facts["features"], facts["labels"])
    settings = [Settings(**options) for options in facts["settings"]]
    head, blend = _head_and_blend(facts, settings, tensors) if settings else (None, None)
    return Model(
        name=facts["head"],
        head=head,
        network=blend,
        settings=settings,
        propensities=propensities,
        tail_bias=float(facts["tail_bias"]),
        seed=facts["seed"],
        kept=kept,
        matcher=matcher,
        rerankers=rerankers,
        recipe=facts["recipe"],
        features=facts["features"],
        nothing=nothing,
    )


def _head_and_blend(facts: dict[str, Any], settings: list[Settings], tensors: Tensors) -> tuple[Head, Blend]:
    claim = claimed(facts["head"], facts["labels"], facts["head_options"])
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # weights that take no room, only to be replaced
        networks = [
            network_of(Scaling(facts["features"], *scaling), claim.width, claim.squashed, options)
            for scaling, options in zip(facts["scaling"], settings, strict=True)
        ]
        blend = Blend(networks, facts["weights"], facts["units"])
    _put(blend, "network/", tensors)
    _check_headroom(claim, bool(facts["head_options"]["trainable"]), tensors)
    head = make_head(facts["head"], facts["labels"], **facts["head_options"])
    _put(head, "head/", tensors)
    return head, blend


def _matcher(facts: dict[str, Any], tensors: Tensors) -> Matcher | None:
    how, features, own = facts["matcher"], facts["features"], _below("matcher/", tensors)
    if how is None:
        return None
    check_integer("waves", how["waves"], 0, WAVES)
    check_integer("seed", how["seed"], 0)
    if not all(map(math.isfinite, (how["length"], how["power"]))):
        raise BadValue("the length and the power of its rows must be finite")
    shift, scale = (own.pop(name, torch.zeros(0)) for name in ("shift", "scale"))
    shapes = {tuple(tensor.shape) for tensor in (shift, scale)}
    if not shapes <= {(0,), (features,)} or {shift.dtype, scale.dtype} != {torch.float32} or len(shift) > len(scale):
        raise BadValue(f"expected scales of {features} features as float32, got shapes {sorted(shapes)}")
    view = View(shift=shift.numpy(), scale=scale.numpy(), **how)
    hidden, inputs = list[Map](), view.outputs(features)
    for number, units in enumerate(facts["hidden"]):
        check_integer("hidden units", units, 1)
        hidden.append(Map.of(_below(f"hidden/{number}/", tensors), inputs, units))
        inputs = units
    return Matcher(view, Map.of(own, inputs, facts["labels"]), tuple(hidden))


def _rerankers(facts: dict[str, Any] | None, tensors: Tensors, features: int, labels: int) -> Rerankers | None:
    if facts is None:
        return None
    check_integer("shortlist", facts["shortlist"], 1)
    if not math.isfinite(facts["trust"]):
        raise BadValue("the weight of its rerankers must be finite")
    return Rerankers(Map.of(tensors, features, labels), float(facts["trust"]), facts["shortlist"])


def _below(prefix: str, tensors: Tensors) -> Tensors:
    """The tensors whose names begin so, by what follows."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_claims(facts: dict[str, Any], tensors: Tensors) -> None:
    """Refuse numbers that a file of this size cannot speak of, and lists that do not belong together."""
    check_integer("features", facts["features"], 1, sum(tensor.numel() for tensor in tensors.values()))
    check_integer("seed", facts["seed"], 0)
    networks = len(facts["settings"])
    lengths = {len(facts[name]) for name in ("settings", "scaling", "weights", "units")}
    if not (facts["matcher"] is None) <= networks <= len(tensors) or len(lengths) > 1:
        raise BadValue(f"{networks} networks do not match its scalings, weights, units and tensors")
    flags = [*facts["units"], *(dense for _, dense in facts["scaling"]), facts["nothing"]]
    if not {type(flag) for flag in flags} <= {bool}:
        raise BadValue("units, dense scalings and the null label must be true or false")
    if not all(map(math.isfinite, (*facts["weights"], facts["tail_bias"]))):
        raise BadValue("the weights of its networks and of rare labels must be finite")


def _check_headroom(claim: Claim, trained: bool, tensors: Tensors) -> None:
    """Refuse a head that was trained and is not there, or that is out of all proportion to the file."""
    shapes = [tuple(tensor.shape) for name, tensor in tensors.items() if name.startswith("head/")]
    if trained and claim.trained not in shapes:
        raise BadValue(f"expected trained codes of shape {claim.trained}, got {shapes}")
    held = sum(tensor.nbytes for tensor in tensors.values())
    if 4 * claim.kept > FREE + TIMES * held:
        raise BadValue(
            f"label codes would take {show_bytes(4 * claim.kept)}, too much for a file with {show_bytes(held)} of "
            "tensors"
        )


def _put(module: nn.Module, prefix: str, tensors: Tensors) -> None:
    """Put the tensors of a file in the place of a module's own, as they are."""
    found = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    wanted = module.state_dict()
    for name in sorted({*found, *wanted}):
        pair = [(tuple(t.shape), t.dtype) if t is not None else None for t in (wanted.get(name), found.get(name))]
        if pair[0] != pair[1]:
            raise BadValue(f"expected {prefix}{name} as {pair[0]}, got {pair[1]}")
    module.load_state_dict(found, assign=True)

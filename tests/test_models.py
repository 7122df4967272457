"""Label models in files: what they claim is looked at before anything is built, and old ones are read."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from damage import peak

from carving.multilabel import Dataset, MultiLabelClassifier, OSCHead, Settings, checkpoints, training
from carving.multilabel.models import BadModel
from carving.storage.tensorfile import checksum, read_tensors, replace_tensors

FEATURES = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 8
LABELS = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]] * 8
LINEAR = Settings(architecture="linear", epochs=1, batch_size=8, learning_rate=0.1)


@pytest.fixture(scope="module")
def fitted():
    wide = [row + [0] * 997 for row in FEATURES]
    return MultiLabelClassifier(settings=LINEAR, head_options=dict(d=18, p=2, k1=6)).fit(wide, LABELS)


def rewritten(file, **changes):
    """The file with other facts or tensors, and a checksum that is right."""
    metadata, tensors = read_tensors(file, "file", lambda _: None)
    facts = json.loads(metadata["facts"])
    tensors |= {name: value for name, value in changes.items() if isinstance(value, torch.Tensor)}
    facts |= {name: value for name, value in changes.items() if not isinstance(value, torch.Tensor)}
    metadata["facts"] = json.dumps(facts)
    metadata["checksum"] = checksum(tensors, metadata)
    replace_tensors(file, tensors, metadata)


def lies(**changes):
    """Options of the head, but for these."""
    options = dict(missing=False, absolute=False, trainable=False, cached=True, seed=0, d=18, p=2, k1=6)
    return options | dict(form="carved", rank=1, tanh=False, basis="blocks") | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(features=3_000_000), "features must be an integer between 1 and"),
        (dict(features=1_001), r"as \(\(1001, 36\), torch.float32\), got \(\(1000, 36\)"),
        (dict(settings=[dataclasses.asdict(LINEAR) | dict(architecture="deep", hidden=10**9)]), "expected network/"),
        (dict(settings=[dataclasses.asdict(LINEAR)] * 10_000), "10000 networks"),
        (dict(settings=[]), "0 networks"),
        (dict(labels=10**9), "1000000000 labels"),
        (dict(labels=5), "5 labels"),
        (dict(head_options=lies(d=10**12)), "label codes would take"),
        (dict(head_options=lies(k1=600, d=10**6)), "expected network/"),
        (dict(head_options=lies(p=10**6)), "p must be an integer between 1 and 4"),
        (dict(head_options=lies(trainable=True)), "trained codes of shape"),
        (dict(head_options=[]), "corrupt"),
        (dict(head="HLB", head_options=dict(cached=True, width=10**9)), "expected network/"),
        (dict(head="\x1b[2J"), r"corrupt \("),
        (dict(weights=[1e400]), "must be finite"),
        (dict(tail_bias=float("nan")), "must be finite"),
        (dict(units=["yes"]), "must be true or false"),
        (dict(seed=-(10**400)), "seed must be"),
        (dict(propensities=torch.full((4,), torch.nan, dtype=torch.float64)), "contains NaN"),
        (dict(propensities=torch.ones(4)), "propensities of"),
        ({"network/networks.0.linear.bias": torch.zeros(36, dtype=torch.float64)}, "float64"),
        ({"network/networks.0.linear.bias": torch.full((36,), torch.inf)}, "infinity"),
        ({"network/another": torch.zeros(2)}, "expected network/another as None"),
    ],
)
def test_models_that_lie_are_refused_and_take_no_memory(fitted, tmp_path, changes, message):
    fitted.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 150_000
    rewritten(tmp_path / "model", **changes)
    before = peak()
    with pytest.raises(BadModel, match=message) as told:
        MultiLabelClassifier.load(tmp_path / "model")
    assert str(told.value).isprintable() and len(str(told.value)) < 1000
    assert peak() - before < 2**29


@pytest.mark.parametrize("options", [dict(recipe="fast"), dict(settings=Settings(architecture="linear", epochs=2)), {}])
def test_a_model_that_tells_nothing_apart_says_the_same_when_it_is_read(options, tmp_path):
    rng = np.random.default_rng(0)
    features, truth = rng.random((60, 5)).astype(np.float32), (rng.random((60, 3)) < 0.3).astype(int)
    made = MultiLabelClassifier(**options, **({} if options else dict(epochs=1))).fit(features, truth)
    made.save(tmp_path / "model")
    read = MultiLabelClassifier.load(tmp_path / "model")
    assert made.scorer_.nothing and read.scorer_.nothing and read.n_labels_ == 3
    assert np.array_equal(read.predict_proba(features), made.predict_proba(features))
    assert np.array_equal(read.rank(features, 3)[0], made.rank(features, 3)[0])


def test_a_model_remembers_whether_options_of_its_head_were_asked_for(fitted, tmp_path):
    features, truth = np.eye(6, dtype=np.float32), np.eye(6, 3, dtype=int)
    made = MultiLabelClassifier(settings=LINEAR).fit(features, truth)
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert back.head_options is None and back.set_params(seed=7).fit(features, truth).head_.seed == 7
    fitted.save(tmp_path / "model")
    asked = MultiLabelClassifier.load(tmp_path / "model").head_options
    assert (asked["d"], asked["p"], asked["k1"]) == (18, 2, 6)


@pytest.mark.parametrize("version", [b"carving labels 5", b"carving labels 7"])
def test_a_model_of_another_version_is_refused(fitted, tmp_path, version):
    fitted.save(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(whole.replace(b"carving labels 6", version))
    message = rf"has format version '{version.decode()}', .* reads 'carving labels 6'\. Train the model again"
    with pytest.raises(BadModel, match=message):
        MultiLabelClassifier.load(tmp_path / "model")


def test_a_model_without_its_checksum_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(whole.replace(b'"checksum"', b'"chuckles"'))
    with pytest.raises(BadModel, match=r"corrupt|not as it was written"):
        MultiLabelClassifier.load(tmp_path / "model")


def test_a_model_that_holds_no_numbers_is_not_saved(fitted, tmp_path):
    weight = fitted.network_.networks[0].linear.bias
    before = weight.detach().clone()
    with torch.no_grad():
        weight[0] = torch.nan
    try:
        with pytest.raises(ValueError, match=r"linear\.bias contains NaN"):
            fitted.save(tmp_path / "model")
    finally:
        with torch.no_grad():
            weight.copy_(before)
    assert not (tmp_path / "model").exists()


# Checkpoints


def run(checkpoint):
    data, head = Dataset(FEATURES, LABELS), OSCHead(4, d=12, p=2, k1=4)
    settings = Settings(architecture="linear", epochs=4, batch_size=8, learning_rate=0.1)
    network = training.make_network(data, head, settings, 3)
    progress = training.train(network, head, data, settings, seed=3, checkpoint=checkpoint)
    return progress, [weight.detach() for weight in network.parameters()]


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    """The checkpoint of a run that was killed after its last epoch, before it was over."""
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    monkeypatch.setattr(checkpoints, "REST", 0)
    monkeypatch.setattr(checkpoints.Checkpoint, "write_weights", lambda *_: None)
    run(tmp_path / "run")
    return tmp_path / "run"


def test_a_checkpoint_of_another_version_is_refused(unfinished):
    unfinished.write_bytes(unfinished.read_bytes().replace(b"carving training 2", b"carving training 1"))
    message = r"has format version 'carving training 1', .* reads 'carving training 2'\. Remove it"
    with pytest.raises(ValueError, match=message):
        run(unfinished)


def test_a_checkpoint_whose_numbers_changed_is_told_and_nothing_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    monkeypatch.setattr(checkpoints, "REST", 0)
    run(tmp_path / "run")
    whole = bytearray((tmp_path / "run").read_bytes())
    whole[-5] ^= 1
    (tmp_path / "run").write_bytes(whole)
    with pytest.raises(ValueError, match=r"corrupt \(the checksum.*Remove it to start over"):
        run(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(progress="[]"), "losses, validation and epochs only"),
        (dict(progress='{"losses": ["x"], "epochs": 4}'), "corrupt"),
        (dict(progress='{"losses": [], "epochs": 1e308}'), "must be finite"),
        (dict(progress="[" * 10**5), "corrupt"),
        ({"weights/0.linear.bias": torch.zeros(7)}, "expected the weights 0.linear.bias as"),
        ({"best/0.linear.bias": torch.zeros(16)}, "expected the weights"),
        ({"optimizer/0/0/exp_avg": torch.zeros(2)}, "expected 0/exp_avg of the optimizer"),
        ({"optimizer/0/99/exp_avg": torch.zeros(2)}, "corrupt"),
        ({"optimizer/0/0/other": torch.zeros(2)}, "unknown state"),
    ],
)
def test_checkpoints_that_lie_are_refused(unfinished, changes, message):
    metadata, tensors = read_tensors(unfinished, "file", lambda _: None)
    for name, value in changes.items():
        (metadata if isinstance(value, str) else tensors)[name] = value
    metadata["checksum"] = checksum(tensors, metadata)
    replace_tensors(unfinished, tensors, metadata)
    with pytest.raises(ValueError, match=message):
        run(unfinished)

"""Heads against the paper's formulas written out, losses against plain sums, the best labels against sorting."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch.testing import assert_close

from carving.multilabel import losses, scoring
from carving.multilabel.heads import MISSING, PRESENT
from carving.multilabel.osc import OSCHead
from carving.multilabel.rows import Rows, label_sets, rows_of
from carving.multilabel.vectors import VECTORS, VectorHead, make_head
from carving.schemes.osc import OSC

SETS = [[0, 3], [5], [1, 2, 6, 4], [3]]
EXACT = dict(rtol=0, atol=1e-10)


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def bound(labels, d, p, k1, role):
    """The labels' bound tensors T = (Pv/|Pv|) x ... x (Pv/|Pv|), in all d^p cells."""
    scheme = OSC(d, p, k1, signed=False, dtype=torch.float64)
    basis = scheme.contexts([(role,)]).basis[0]
    projector = basis.mT @ basis
    tensors = []
    for filler in scheme.fillers(labels):
        total = torch.ones(1, dtype=torch.float64)
        for v in filler:
            carved = projector @ v
            total = torch.kron(total, carved / carved.norm())
        tensors.append(total)
    return torch.stack(tensors)


def osc(**changes):
    return OSCHead(**(dict(labels=7, d=10, p=2, k1=4, missing=True, dtype=torch.float64) | changes))


def carved(memories, d, p, k1):
    """What both roles show of whole memories, mode by mode, by explicit Kronecker products."""
    scheme = OSC(d, p, k1, signed=False, dtype=torch.float64)
    parts = []
    for basis in scheme.contexts([(PRESENT,), (MISSING,)]).basis:
        full = basis
        for _ in range(p - 1):
            full = torch.kron(full, basis)
        parts.append(memories @ full.mT)
    return torch.cat(parts, dim=1)


# OSC


@pytest.mark.parametrize("p", [2, 3])
def test_the_full_head_and_the_carved_head_give_the_papers_scores(p):
    full, small = osc(p=p, form="full"), osc(p=p)
    memories = random(4, 10**p)
    expected = memories @ bound(range(7), 10, p, 4, PRESENT).mT
    assert_close(full(memories), expected, **EXACT)
    assert_close(small(carved(memories, 10, p, 4)), expected, **EXACT)


@pytest.mark.parametrize("p", [2, 3])
def test_the_full_head_and_the_carved_head_have_the_same_loss(p):
    full, small = osc(p=p, form="full"), osc(p=p)
    memories = random(4, 10**p)
    u = bound(range(7), 10, p, 4, PRESENT)
    w = bound(range(7), 10, p, 4, MISSING)
    cosine = torch.nn.functional.cosine_similarity
    space = carved(torch.eye(10**p, dtype=torch.float64), 10, p, 4)
    expected = 0.0
    for memory, labels in zip(memories, SETS, strict=True):
        inside = [memory @ part @ part.mT for part in space.chunk(2, dim=1)]
        rest = [i for i in range(7) if i not in labels]
        expected += (1 - cosine(inside[0], u[labels].sum(0), dim=0)) / 4
        expected += cosine(inside[1], w[rest].sum(0), dim=0).clamp_min(0) / 4
    assert_close(full.loss(memories, SETS), expected, **EXACT)
    assert_close(small.loss(carved(memories, 10, p, 4), SETS), expected, **EXACT)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("cached", [True, False])
def test_the_target_counts_the_labels_of_a_point_alone_and_equals_the_sum_over_all(p, cached):
    head = osc(p=p, cached=cached)
    sets = label_sets(SETS, 7)
    for role in (PRESENT, MISSING):
        codes = head.codes(role=role)
        assert_close(head.sum_codes(sets, role), torch.stack([codes[one].sum(0) for one in SETS]), **EXACT)
        absent = [[i for i in range(7) if i not in one] for one in SETS]
        assert_close(head.sum_other_codes(sets, role), torch.stack([codes[one].sum(0) for one in absent]), **EXACT)


def test_codes_have_norm_one_and_come_from_names_alone():
    head = osc(labels=["cat", "dog", 5])
    assert_close(head.codes().norm(dim=1), torch.ones(3, dtype=torch.float64), **EXACT)
    turned = osc(labels=[5, "cat", "dog"])
    assert_close(turned.codes(), head.codes()[[2, 0, 1]], rtol=0, atol=0)
    assert not torch.equal(osc(labels=["cat", "dog", 5], seed=1).codes(), head.codes())


def test_labels_that_are_drawn_when_needed_are_those_that_are_kept():
    kept, drawn = osc(), osc(cached=False)
    outputs = random(4, kept.width)
    assert sum(buffer.numel() for buffer in drawn.buffers()) == 2 * 4 * 10  # the roles' bases, nothing of the labels
    assert_close(drawn(outputs), kept(outputs), **EXACT)
    assert_close(drawn.loss(outputs, SETS), kept.loss(outputs, SETS), **EXACT)


def test_a_head_that_is_not_trained_has_nothing_to_save():
    assert not osc().state_dict()
    assert not list(osc().parameters())
    assert not VectorHead("HLB", 7).state_dict()


@pytest.mark.parametrize("form", ["carved", "full", "components"])
def test_gradients_of_the_loss_are_right(form):
    head = osc(d=6, k1=2, form=form, rank=2)
    outputs = random(4, head.width).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.loss(x, SETS), (outputs,))


def test_tuples_of_components_make_the_memory_of_their_labels():
    head = osc(form="components", rank=3, missing=False)
    components = torch.stack([head._components(torch.tensor([0, 3, 5]), PRESENT)], 0).permute(0, 2, 1, 3)
    assert_close(head.read(components.reshape(1, -1)), head.sum_codes(label_sets([[0, 3, 5]], 7)), **EXACT)


def test_presets_give_order_and_kept_dimensions():
    assert OSCHead(3, d=125).width == 42**2
    assert OSCHead(3, d=125, missing=True).width == 2 * 42**2
    assert OSCHead(3, d=125, preset="root").width == 11**3
    assert OSCHead(3, d=125, k1=10).width == 100
    assert OSCHead(3, d=12, form="full").width == 144


@pytest.mark.parametrize("make", [osc, lambda **k: VectorHead("MAP", 7, 16, dtype=torch.float64, **k)])
def test_trainable_labels_get_gradients_and_their_sum_follows(make):
    head = make(trainable=True)
    before = head.sum_all_codes(MISSING).detach().clone()
    outputs = random(4, head.width)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    first = head.loss(outputs, SETS)
    first.backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in head.parameters())
    optimizer.step()
    assert head.loss(outputs, SETS) < first
    assert not torch.allclose(head.sum_all_codes(MISSING), before)
    assert_close(head.sum_all_codes(MISSING), head.codes(role=MISSING).sum(0), **EXACT)


def test_trained_labels_begin_as_their_names_say():
    assert_close(osc(trainable=True).codes(), osc().codes(), **EXACT)


# The vector heads


def literal_unbinding(name, s, role):
    """Unbinding, one coordinate after the other."""
    o = len(s)
    if name == "HLB":
        return s / role
    if name == "MAP":
        return s * role
    if name == "HRR":
        return np.array([sum(role[j] * s[(i + j) % o] for j in range(o)) for i in range(o)])
    side = int(np.ceil(np.sqrt(o)))
    s, role = (np.pad(x, (0, side * side - o)) for x in (s, role))
    block = np.kron(np.eye(side), role.reshape(side, side))  # the block-diagonal matrix that binding multiplies with
    return (block.T @ s)[:o]


@pytest.mark.parametrize("width", [16, 14])
@pytest.mark.parametrize("name", VECTORS)
def test_the_published_losses_and_scores_written_out(name, width):
    head = VectorHead(name, 7, width, scale=0.5, dtype=torch.float64)
    outputs = 3 * random(4, width)
    codes = head.codes().numpy()
    cos = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    expected = 0.0
    for row, (s, labels) in enumerate(zip(outputs.numpy(), SETS, strict=True)):
        u, w = (literal_unbinding(name, s, role) for role in head.role_vectors.numpy())
        rest = [i for i in range(7) if i not in labels]
        near, far = cos(u, codes[labels].sum(0)), cos(w, codes[rest].sum(0))
        if name == "HLB":
            root = np.sqrt(max(1.0, s @ s / (0.5**4 * width)))
            expected += (1 - np.clip(root * near, 0, 1) + np.clip(root * far, 0, 1)) / 4
        else:
            expected += (1 - abs(near) + abs(far)) / 4
        scores = torch.tensor([abs(cos(u, code)) for code in codes])
        assert_close(head(outputs)[row], scores, **EXACT)
    assert_close(head.loss(outputs, SETS), torch.tensor(expected), **EXACT)


def test_every_label_on_its_own_is_the_loss_of_ganesan():
    head = VectorHead("HRR", 7, 16, each=True, dtype=torch.float64)
    outputs = random(4, 16)
    cosine = torch.nn.functional.cosine_similarity
    expected = 0.0
    for s, labels in zip(outputs, SETS, strict=True):
        u, w = head.read(s[None])[0], head.read(s[None], MISSING)[0]
        expected += sum(1 - cosine(u, head.codes()[i], dim=0).abs() for i in labels) / 4
        expected += sum(cosine(w, head.codes()[i], dim=0).abs() for i in labels) / 4
    assert_close(head.loss(outputs, SETS), expected, **EXACT)


def test_without_the_missing_role_half_of_the_loss_is_left():
    outputs = random(4, 16)
    small = VectorHead("VTB", 7, 16, missing=False, dtype=torch.float64)
    whole = VectorHead("VTB", 7, 16, dtype=torch.float64)
    sets = label_sets(SETS, 7)
    part = losses.absolute(whole.read(outputs), whole.sum_codes(sets))
    assert_close(small.loss(outputs, SETS), part, **EXACT)
    assert whole.loss(outputs, SETS) > part
    for head in (small, osc(missing=False)):
        with pytest.raises(ValueError, match="missing=True"):
            head.read(random(1, head.width), MISSING)


def test_hlb_entries_lie_near_plus_and_minus_the_scale():
    codes = VectorHead("HLB", 50, 100, scale=0.25).codes()
    assert_close(codes.abs().mean(), torch.tensor(0.25), rtol=0, atol=0.005)
    assert abs(float(codes.mean())) < 0.02


# Losses over scores


def test_softmax_and_binary_losses_written_out():
    scores = random(4, 7)
    sets = label_sets(SETS, 7)
    p = torch.softmax(scores, 1)
    expected = -sum(p[i, labels].log().mean() for i, labels in enumerate(SETS)) / 4
    assert_close(losses.softmax(scores, sets), expected, **EXACT)
    truth = torch.zeros(4, 7, dtype=torch.float64)
    for i, labels in enumerate(SETS):
        truth[i, labels] = 1
    total = torch.nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum")
    assert_close(losses.binary(scores, sets), total / truth.sum(), **EXACT)


# The best labels


def test_the_best_labels_of_chunks_are_those_of_sorting_all_ties_included():
    scores = torch.randint(0, 6, (50, 101), generator=torch.Generator().manual_seed(1)).float()
    order = np.argsort(-scores.numpy(), axis=1, kind="stable")
    for k in (1, 5, 100, 101):
        for workspace in (1, 4 * 52 * 2 * 7, 2**20):
            values, ids = scoring.top(scores, lambda rows, part: rows[:, part], 101, k, 1, workspace)
            assert np.array_equal(ids.numpy(), order[:, :k])
            assert_close(values, scores.gather(1, ids), rtol=0, atol=0)


def test_top_equals_dense_scoring_whatever_is_kept(monkeypatch):
    head = OSCHead(300, d=30, k1=6)
    outputs = random(20, head.width).float()
    expected = np.argsort(-head(outputs).numpy(), axis=1, kind="stable")[:, :5]
    assert np.array_equal(head.top(outputs, 5)[1].numpy(), expected)
    monkeypatch.setattr("carving.multilabel.heads.KEPT", 0)
    monkeypatch.setattr(scoring, "WORKSPACE", 1)
    monkeypatch.setattr("carving.multilabel.heads.CHUNK", 17)
    assert np.array_equal(head.top(outputs, 5)[1].numpy(), expected)
    assert_close(head(outputs).gather(1, torch.from_numpy(expected)), head.top(outputs, 5)[0])


def test_a_bias_moves_labels_up():
    head = OSCHead(30, d=30, k1=6)
    outputs = random(20, head.width).float()
    bias = torch.linspace(0, 9, 30)
    expected = np.argsort(-(head(outputs) + bias).numpy(), axis=1, kind="stable")[:, :5]
    assert np.array_equal(head.top(outputs, 5, bias)[1].numpy(), expected)


# Label sets, and what is refused


def test_label_sets_come_in_four_forms():
    dense = torch.zeros(4, 7)
    for i, labels in enumerate(SETS):
        dense[i, labels] = 1
    for given in (SETS, dense, csr_matrix(dense.numpy()), rows_of(csr_matrix(dense.numpy()))):
        assert_close(label_sets(given, 7).dense(), dense, rtol=0, atol=0)


def test_rows_of_a_matrix_are_its_rows():
    matrix = csr_matrix(np.random.RandomState(0).binomial(2, 0.3, (9, 5)).astype(np.float32))
    for which in (slice(2, 6), np.array([8, 0, 3]), slice(None)):
        assert np.array_equal(rows_of(matrix, which).dense().numpy(), matrix[which].toarray())
        assert isinstance(rows_of(matrix, which), Rows)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OSCHead(0), "labels must be an integer of at least 1"),
        (lambda: OSCHead(["a", "a"]), "distinct"),
        (lambda: OSCHead(3, d=10, k1=6), "between 1 and 5"),
        (lambda: OSCHead(3, preset="fourth"), "'third', 'root'"),
        (lambda: OSCHead(3, form="whole"), "'carved', 'full'"),
        (lambda: VectorHead("HBL", 3), "Did you mean HLB"),
        (lambda: VectorHead("HLB", 3, scale=0), "positive"),
        (lambda: osc().loss(torch.zeros(1, 5), [[0]]), "last layer must have 32 outputs"),
        (lambda: osc().loss(torch.zeros(2, 32), [[0]]), "got 1 sets for 2 points"),
        (lambda: osc().loss(torch.zeros(1, 32), [[7]]), "between 0 and 6, got 7"),
        (lambda: osc().loss(torch.zeros(1, 32), csr_matrix(np.eye(9))), "7 columns, .*got 9"),
        (lambda: osc().top(torch.zeros(1, 32), 8), "There are 7 labels"),
        (lambda: osc().top(torch.full((1, 32), torch.nan, dtype=torch.float64)), "finite"),
    ],
)
def test_mistakes_are_told(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.slow
def test_one_tuple_of_components_cannot_hold_several_labels():
    """Points of five labels out of 200: what the carved head learns in a few steps, a rank-1 head does not."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(2000, 200, generator=generator).topk(5, dim=1).indices
    features = torch.randn(200, 64, generator=generator)[truth].sum(1)
    found = {}
    for form in ("carved", "components"):
        torch.manual_seed(0)
        head = OSCHead(200, d=48, k1=16, form=form)
        layers = [torch.nn.Linear(64, 256), torch.nn.LeakyReLU(), torch.nn.Linear(256, head.width)]
        network = torch.nn.Sequential(*layers)
        optimizer = torch.optim.Adam(network.parameters(), 2e-3)
        for step in range(300):
            rows = torch.arange(step * 100, step * 100 + 100) % 1600
            optimizer.zero_grad()
            head.loss(network(features[rows]), truth[rows].tolist()).backward()
            optimizer.step()
        best = head.top(network(features[1600:]), 5)[1]
        found[form] = float((best[:, :, None] == truth[1600:, None]).any(2).float().mean())
    assert found["carved"] > 0.6
    assert found["components"] < found["carved"] - 0.2


def test_label_sets_are_sets():
    head, outputs = OSCHead(10, d=12), torch.randn(1, 16)
    wanted = head.loss(outputs, [[1, 2]])
    stored = csr_matrix(([1.0, 1.0, 0.0], [1, 2, 5], [0, 3]), (1, 10))
    assert_close(head.loss(outputs, stored), wanted)
    assert_close(head.loss(outputs, [[2, 1, 1]]), wanted)
    with pytest.raises(TypeError, match=r"indices from 0, .* got 1.7"):
        head.loss(outputs, [[1.7]])
    with pytest.raises(ValueError, match="zeros and ones, got 3"):
        head.loss(outputs, csr_matrix(([3.0], [1], [0, 1]), (1, 10)))


def test_label_sets_may_name_their_labels():
    head, outputs = OSCHead(["physics", "maths", "music"], d=12), torch.randn(2, 16)
    assert_close(head.loss(outputs, [["music", "physics"], [1]]), head.loss(outputs, [[0, 2], [1]]))
    with pytest.raises(ValueError, match=r"Unknown label 'poetry'.*3 named labels: physics, maths, music"):
        head.loss(outputs, [["poetry"], []])
    with pytest.raises(TypeError, match=r"indices from 0, .* got 'music'"):
        OSCHead(3, d=12).loss(outputs, [["music"], []])


def test_long_sets_are_summed_in_parts(monkeypatch):
    head, sets = OSCHead(50, d=12), [list(range(40)), [], [3, 4], [7]]
    whole = head.sum_codes(head.label_sets(sets, 4))
    monkeypatch.setattr("carving.multilabel.osc.PADDED", 1)
    assert_close(head.sum_codes(head.label_sets(sets, 4)), whole)


def test_halves_are_ranked_and_a_bias_is_one_for_each_label():
    head, outputs = OSCHead(np.int64(20), d=12), torch.randn(3, 16)
    assert_close(head.top(outputs.bfloat16(), 2)[0], head.top(outputs.bfloat16().float(), 2)[0])
    assert head.top(outputs[:0], 2)[1].shape == (0, 2)
    with pytest.raises(ValueError, match=r"bias must have shape \(20\)"):
        head.top(outputs, 2, torch.zeros(19))


def test_labels_that_are_not_kept_are_drawn_once(monkeypatch):
    head, drawn = OSCHead(300, d=12, cached=False), []
    monkeypatch.setattr("carving.multilabel.scoring.WORKSPACE", 20_000)
    codes = OSCHead.codes
    monkeypatch.setattr(OSCHead, "codes", lambda self, part: drawn.append(part.stop - part.start) or codes(self, part))
    head.top(torch.randn(4, 16), 3)
    assert len(drawn) > 1
    assert sum(drawn) == 300


@pytest.mark.parametrize("head", [OSCHead(20, d=12, cached=False), VectorHead("MAP", 20, 16, cached=False)])
def test_heads_follow_to_other_numbers(head):
    head, sets = head.double(), [[1, 2], [3]]
    outputs = torch.randn(2, head.width, requires_grad=True)
    for given in (outputs, outputs.double(), outputs.bfloat16()):  # as networks give them, under autocast as well
        assert head(given).dtype == head.loss(given, sets).dtype == head.top(given, 3)[0].dtype == torch.float64
    head.loss(outputs.bfloat16(), sets).backward()


def test_what_was_made_without_gradients_is_trained_with_later():
    head = OSCHead(20, d=12, missing=True)
    outputs = torch.randn(2, head.width, requires_grad=True)
    with torch.inference_mode():
        head.top(outputs, 3)
        head.loss(outputs, [[1], [2]])
    (head(outputs).sum() + head.loss(outputs, [[1], [2]])).backward()
    assert outputs.grad.isfinite().all()


def test_scores_may_be_absolute_for_comparison():
    head, same = OSCHead(20, d=12), OSCHead(20, d=12, absolute=True, tanh=True)
    outputs = torch.randn(3, head.width)
    assert_close(same(outputs), head(outputs).abs())
    assert same.squashed and not head.squashed


def test_label_sets_that_are_none_are_refused():
    head, outputs = OSCHead(["sun", "sea"], d=12), torch.randn(2, 16)
    assert_close(head.loss(outputs, np.array([[1, 0], [1, 1]])), head.loss(outputs, [["sun"], ["sea", "sun"]]))
    with pytest.raises(TypeError, match=r"needs a list of labels, got 'sun'.* write \['sun'\]"):
        head.loss(outputs, ["sun", "sea"])
    with pytest.raises(TypeError, match="needs a list of labels, got 1"):
        head.loss(outputs, [1, 0])
    with pytest.raises(ValueError, match=r"zeros and ones, got 0.3"):
        head.loss(outputs, torch.tensor([[0.3, 0], [0, 1]]))
    with pytest.raises(ValueError, match=r"Unknown head 'osc'. Did you mean OSC"):
        make_head("osc", 3)


# What is not installed

WITHOUT_EXTRAS = """
import importlib, pkgutil, sys

class Uninstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scipy", "sklearn", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Uninstalled())
import torch
import carving.multilabel

for module in pkgutil.iter_modules(carving.multilabel.__path__):
    importlib.import_module(f"carving.multilabel.{module.name}")

from carving.errors import UserError
from carving.multilabel import Dataset, MultiLabelClassifier, OSCHead, VectorHead

for head in (OSCHead(["sun", "sea", "sand"], d=12), VectorHead("HRR", ["sun", "sea", "sand"], 16)):
    outputs = torch.ones(2, head.width, requires_grad=True)
    head.loss(outputs, [["sun", 2], ["sea"]]).backward()
    head.loss(outputs, torch.tensor([[1, 0, 1], [0, 1, 0]])).backward()
    assert head.top(outputs, 2).indices.shape == (2, 2) and outputs.grad.isfinite().all()

for make in (MultiLabelClassifier, lambda: Dataset([[1.0]], [[1]])):
    try:
        make()
    except UserError as error:
        print(error)
"""


def test_heads_need_torch_alone_and_the_rest_says_what_to_install():
    said = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("pip install 'carving[multilabel]'") == 2


def test_options_that_no_head_has_are_refused():
    with pytest.raises(TypeError, match="cashed"):
        OSCHead(3, d=12, cashed=False)
    with pytest.raises(TypeError, match="cashed"):
        VectorHead("HRR", 3, cashed=False)


def test_the_point_of_a_score_that_is_no_number_is_told():
    scores = torch.zeros(1500, 9)
    scores[1300, 7] = torch.inf
    for k in (1, 3):
        with pytest.raises(ValueError, match="point 1300"):
            scoring.top(scores, lambda rows, part: rows[:, part], 9, k, 1)

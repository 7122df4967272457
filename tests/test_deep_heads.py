"""Heads behind networks of one's own: labels on a grid, compiled, in halves, over ranks, saved and put back."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from carving.hashing import mixed
from carving.multilabel import MultiLabelClassifier, OSCHead, Settings, losses
from carving.multilabel.grid import Grid, scored
from carving.multilabel.levels import MEANS, Levels

GOLDEN_SIGNS = [-1.0, -1.0, -1.0, -1.0, 1.0, -1.0, -1.0, 1.0]
OWN = [[0, 3], [5], [1, 2, 6, 4], [3]]


def points(count=4, wide=12, seed=0):
    return torch.randn(count, wide, generator=torch.Generator().manual_seed(seed))


def network(head, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, head.width))


# The grid


@pytest.mark.parametrize(("count", "p"), [(1, 2), (2, 2), (7, 1), (50, 2), (64, 3), (65, 3), (1000, 2)])
def test_every_label_has_a_cell_of_its_own_and_comes_back(count, p):
    grid = Grid.of(count, 0, p, seed=3)
    labels = torch.arange(grid.cells)
    assert grid.q == max(2, next(q for q in itertools.count(1) if q**p >= count))
    assert grid.cell(labels).unique().numel() == grid.cells >= count
    assert torch.equal(grid.label(grid.cell(labels)), labels)
    numbers = grid.numbers(labels)
    assert torch.equal(sum(n * grid.q ** (p - 1 - i) for i, n in enumerate(numbers)), grid.cell(labels))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_scores_of_all_cells_are_those_of_the_codes_written_out(p):
    vectors, cores = torch.randn(p, 5, 4, dtype=torch.float64), torch.randn(3, 4**p, dtype=torch.float64)
    codes = []
    for chosen in itertools.product(range(5), repeat=p):
        code = torch.ones(1, dtype=torch.float64)
        for mode, number in enumerate(chosen):
            code = torch.kron(code, vectors[mode, number])
        codes.append(code)
    assert_close(scored(cores, vectors), cores @ torch.stack(codes).mT)


@pytest.mark.parametrize("options", [{}, dict(absolute=True), dict(p=3, k1=3), dict(missing=True)])
@pytest.mark.parametrize("biased", [False, True])
def test_the_best_labels_of_a_grid_are_those_of_all_scores(options, biased, monkeypatch):
    monkeypatch.setattr("carving.multilabel.grid.WORKSPACE", 8 * 500)  # a point at a time
    head = OSCHead(331, d=18, dictionary=0, dtype=torch.float64, **options)
    outputs = torch.randn(5, head.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    bias = torch.linspace(-1, 1, 331, dtype=torch.float64) if biased else None
    scores = head(outputs) + (0 if bias is None else bias)
    best = head.top(outputs, 9, bias)
    assert torch.equal(best.indices, scores.argsort(1, descending=True)[:, :9])
    assert_close(best.scores, scores.gather(1, best.indices))
    assert_close(
        head.sum_codes(head.label_sets([[7, 330]], 1)), head.codes(torch.tensor([7, 330])).sum(0, keepdim=True)
    )
    assert_close(head.sum_all_codes(), head.codes().sum(0))


def test_a_grid_keeps_the_root_of_its_labels_and_says_what_it_cannot():
    head = OSCHead(1_000_000, d=48, dictionary=0)
    assert sum(buffer.numel() for buffer in head.buffers()) == 16 * 48 + 2 * 1000 * 16
    assert not head.state_dict()
    with pytest.raises(ValueError, match="1000 labels need at least 32"):
        OSCHead(1000, d=18, dictionary=31)
    with pytest.raises(ValueError, match="needs labels given as their number"):
        OSCHead(["a", "b"], d=18, dictionary=0)


@pytest.mark.parametrize("kind", [dict(dictionary=0), dict(levels=True), dict(levels=True, cached=False)])
def test_a_grid_or_levels_go_into_the_classifier_and_its_file(kind, tmp_path):
    features, labels = torch.eye(30).repeat(4, 1).numpy(), torch.eye(30).repeat(4, 1).numpy()
    settings = Settings(architecture="linear", epochs=40, learning_rate=3e-2)
    made = MultiLabelClassifier(head_options=dict(d=48, **kind), settings=settings).fit(features, labels)
    assert (made.rank(features[:30], 1)[0][:, 0] == range(30)).mean() > 0.9
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert (back.rank(features, 3)[0] == made.rank(features, 3)[0]).all()


# Levels


def splitmix(counter, key):
    """The published generator, whose state is `key` before its first word, in Python's own numbers."""
    word = (key + (counter + 1) * 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def test_numbers_are_mixed_as_published_whatever_their_size():
    assert splitmix(0, 0) == 0xE220A8397B1DCDAF  # of the generator's own tables
    for key in (0, 1, 2**63, 2**64 - 1):
        for number in (0, 1, 2**40, 2**62):
            assert int(mixed(torch.tensor([number]), key)[0]) % 2**64 == splitmix(number, key)


@pytest.mark.parametrize(("p", "k1"), [(1, 3), (2, 16), (2, 42), (3, 5)])
def test_components_are_the_levels_that_a_labels_words_count_out(p, k1):
    levels = Levels.of(p, k1, seed=5)
    found = levels.components(torch.tensor([0, 7, 10**9]), torch.zeros(0, dtype=torch.float64))
    for place, label in enumerate((0, 7, 10**9)):
        words = -(-2 * p * k1 // 64)
        bits = sum(splitmix(label * words + i, levels.key) << 64 * i for i in range(words))
        numbers = torch.tensor([MEANS[bits >> 2 * i & 3] for i in range(p * k1)], dtype=torch.float64).view(p, k1)
        assert_close(found[:, place], nn.functional.normalize(numbers, dim=1))


def test_a_number_gives_the_same_levels_for_ever():
    signs = OSCHead(10, d=24, k1=8, levels=True).codes(torch.tensor([3]))[0, :8].sign()
    assert signs.tolist() == GOLDEN_SIGNS


@pytest.mark.parametrize("options", [{}, dict(absolute=True), dict(p=3, k1=3), dict(missing=True), dict(form="full")])
@pytest.mark.parametrize("biased", [False, True])
def test_the_best_labels_by_levels_are_those_of_all_scores(options, biased, monkeypatch):
    monkeypatch.setattr("carving.multilabel.scoring.WORKSPACE", 8 * 2 * 100 * 41)  # chunks of some labels,
    monkeypatch.setattr("carving.multilabel.scoring.DRAWN", 10 * 36)  # drawn ten at a time
    head = OSCHead(331, d=18, levels=True, cached=False, dtype=torch.float64, **options)
    outputs = torch.randn(5, head.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    bias = torch.linspace(-1, 1, 331, dtype=torch.float64) if biased else None
    scores = head(outputs) + (0 if bias is None else bias)
    best = head.top(outputs, 9, bias)
    assert torch.equal(best.indices, scores.argsort(1, descending=True)[:, :9])
    assert_close(best.scores, scores.gather(1, best.indices))
    assert_close(
        head.sum_codes(head.label_sets([[7, 330]], 1)), head.codes(torch.tensor([7, 330])).sum(0, keepdim=True)
    )
    assert_close(head.sum_all_codes(), head.codes().sum(0))


def test_codes_of_levels_are_as_unlike_as_those_of_normals():
    """Of 300 labels the inner products have the deviation of random unit vectors, 1 / 16, and no two are the same."""
    codes = OSCHead(300, d=48, levels=True).codes()
    others = (codes @ codes.mT)[~torch.eye(300, dtype=torch.bool)]
    assert_close(codes.norm(dim=1), torch.ones(300))
    assert abs(float(others.std()) * 16 - 1) < 0.05 and float(others.max()) < 0.6


def test_levels_keep_nothing_of_their_labels_and_say_what_they_cannot():
    head = OSCHead(1_000_000, d=48, levels=True)
    assert sum(buffer.numel() for buffer in head.buffers()) == 16 * 48 and not head.state_dict()
    with pytest.raises(ValueError, match="needs labels given as their number"):
        OSCHead(["a", "b"], d=18, levels=True)
    with pytest.raises(ValueError, match="exclude each other"):
        OSCHead(9, d=18, levels=True, dictionary=0)


# Networks of one's own


@pytest.fixture(
    params=[{}, dict(dictionary=0), dict(trainable=True), dict(cached=False), dict(levels=True, cached=False)], ids=str
)
def head(request):
    return OSCHead(7, d=18, missing=True, **request.param)


def test_a_network_with_its_head_is_saved_and_put_back(head):
    whole = nn.ModuleDict(dict(network=network(head), head=head))
    optimizer = torch.optim.Adam(whole.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        head.loss(whole["network"](points()), OWN).backward()
        optimizer.step()
    twin = OSCHead(7, **head.options)
    other = nn.ModuleDict(dict(network=network(twin, seed=1), head=twin))
    other.load_state_dict(whole.state_dict())
    best, again = head.top(whole["network"](points()), 3), twin.top(other["network"](points()), 3)
    assert torch.equal(best.indices, again.indices)
    assert_close(best.scores, again.scores)


@pytest.mark.filterwarnings("ignore")  # of torch's own tracing
@pytest.mark.xdist_group("compile")  # in one process, so that torch's compiler is imported once
def test_a_compiled_network_gives_the_same_losses_gradients_and_scores(head):
    whole, x, sets = network(head), points(), head.label_sets(OWN, 4)
    expected = head.loss(whole(x), sets)
    gradients = torch.autograd.grad(expected, list(whole.parameters()))
    compiled = torch.compile(lambda given: head.loss(whole(given), sets), backend="aot_eager")
    assert_close(compiled(x), expected)
    assert_close(torch.autograd.grad(compiled(x), list(whole.parameters())), gradients)
    scores = torch.compile(lambda given: head(whole(given)), backend="aot_eager")
    with torch.no_grad():
        assert_close(scores(x), head(whole(x)))


def test_halves_of_autocast_are_trained_and_ranked(head):
    whole, x = network(head), points()
    optimizer = torch.optim.Adam([*whole.parameters(), *head.parameters()], 1e-2)
    seen = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = head.loss(whole(x), OWN)
        loss.backward()
        optimizer.step()
        seen.append(float(loss.detach()))
    assert seen[-1] < 0.5 * seen[0] and all(map(math.isfinite, seen))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert head.top(whole(x), 1).indices[1].tolist() == [5]


def test_ranks_under_autocast_are_those_of_whole_numbers(head):
    outputs = torch.randn(200, head.width, generator=torch.Generator().manual_seed(0))
    wanted = head.top(outputs, 5)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.top(outputs, 5)
    assert torch.equal(found.indices, wanted.indices) and torch.equal(found.scores, wanted.scores)


def test_scores_that_were_trained_by_cross_entropy_are_probabilities():
    """One label a point, drawn from known shares: the softmax of scores comes near them."""
    head, shares = OSCHead(6, d=36), torch.tensor([0.5, 0.25, 0.1, 0.1, 0.05, 0.0])
    outputs = torch.zeros(1, head.width, requires_grad=True)
    drawn = torch.multinomial(shares, 2000, replacement=True, generator=torch.Generator().manual_seed(0))
    sets = head.label_sets([[int(label)] for label in drawn], 2000)
    optimizer = torch.optim.Adam([outputs], 0.1)
    for _ in range(150):
        optimizer.zero_grad()
        losses.softmax(head(outputs).expand(2000, -1), sets).backward()
        optimizer.step()
    found = torch.bincount(drawn, minlength=6) / 2000
    assert_close(head(outputs).softmax(1)[0].detach(), found, atol=0.01, rtol=0)

"""Structures of vectors: laws over every architecture that has the verbs, each against a slow way of its own."""

import math

import pytest
import torch

from carving import OSC, TPR, VSA
from carving.schemes.architectures import ARCHITECTURES
from carving.structures import (
    Automaton,
    Graph,
    HashTable,
    Multiset,
    Sequence,
    Stack,
    Tree,
    bind_sequence,
    bundle_sequence,
    factorize,
    graph,
    hash_table,
    multiset,
    nearest,
    ngrams,
)
from carving.structures.vectors import ordered

D = 1_024
EVERY = [
    *(VSA(name, D) for name in ARCHITECTURES),
    VSA("HRR", D, unitary=True),
    VSA("MBAT", 256, form="dense"),
    VSA("BSDC-SEG", D, bundling="mode"),
    VSA("CGR", D, bundling="mode"),
    VSA("BSC", D, memory="raw"),
    VSA("GHRR", 1_152, m=3),
]


def short(vsa):
    return "-".join(map(str, [vsa.name, vsa.memory, *vsa.options.values()]))


@pytest.fixture(params=EVERY, ids=short)
def vsa(request):
    return request.param


@pytest.fixture(params=[vsa for vsa in EVERY if vsa.row.unbind], ids=short)
def unbinding(request):
    return request.param


def same(x, y):
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    return torch.allclose(x, y, rtol=1e-4, atol=1e-4)


def few(vsa):
    """How many bound pairs an architecture holds safely at these dimensions: sparse codes fill up."""
    return 3 if vsa.row.overlap or vsa.name in ("VTB", "MBAT", "MAP-C") else 5


# As single vectors


def test_sequences_are_bundles_of_permuted_vectors(vsa, generator):
    x = vsa.random(5, generator)
    permuted = torch.stack([ordered(vsa, vector, 4 - place) for place, vector in enumerate(x)])
    assert same(bundle_sequence(vsa, x), vsa.bundle(permuted))
    assert same(bind_sequence(vsa, x), vsa.bind_path(permuted[0], permuted[1:]))
    batch = torch.stack((x, x.flip(0)))
    assert same(bundle_sequence(vsa, batch)[1], bundle_sequence(vsa, x.flip(0)))
    assert same(multiset(vsa, x), vsa.bundle(x))


def test_the_order_of_a_sequence_counts(vsa, generator):
    """Also where binding is commutative and rolled vectors bind as others do: HRR has an order of its own."""
    x = vsa.random(3, generator)
    for make in (bind_sequence, bundle_sequence):
        there, back = make(vsa, x), make(vsa, x.flip(0))
        likeness = vsa.similarity(there, torch.stack((there, back)))
        assert likeness[1] < 0.6 * likeness[0]
    assert same(ordered(vsa, ordered(vsa, x, 3), -3), x)
    hrr = VSA("HRR", 64)
    a, b = hrr.random(2, generator)
    assert same(hrr.bind(hrr.permute(a), b), hrr.bind(a, hrr.permute(b)))  # why


def test_the_order_of_coordinates_stays_as_it_is():
    vsa = VSA("HRR", 16)
    assert vsa.row.order(vsa.space).tolist() == [6, 0, 3, 11, 4, 14, 13, 12, 10, 8, 9, 7, 5, 2, 15, 1]


def test_gradients_reach_sequences_also_after_inference(generator):
    vsa = VSA("HRR", 64, seed=77)
    with torch.inference_mode():
        ngrams(vsa, vsa.random(4, generator))
    x = vsa.random(4, generator).requires_grad_()
    for made in (ngrams(vsa, x), bundle_sequence(vsa, x), bind_sequence(vsa, x)):
        (gradient,) = torch.autograd.grad(made.square().sum(), x)
        assert gradient.isfinite().all() and (gradient.abs().sum(-1) > 0).all()


def test_n_grams_are_the_bundle_of_bound_windows(vsa, generator):
    x = vsa.random(9, generator)
    for n in (1, 2, 4, 9):
        windows = torch.stack([bind_sequence(vsa, x[start : start + n]) for start in range(10 - n)])
        assert same(ngrams(vsa, x, n), vsa.bundle(windows))


def test_long_sequences_are_summed_in_parts(generator, monkeypatch):
    vsa = VSA("MAP-I", 64)
    x = vsa.random(2 * 50, generator).unflatten(0, (2, 50))
    whole = ngrams(vsa, x)
    monkeypatch.setattr("carving.structures.vectors.CACHED_BYTES", 7 * 128 * 4)
    assert torch.equal(ngrams(vsa, x), whole)
    assert torch.equal(whole[1], ngrams(vsa, x[1]))


SUMS = [{}, {"name": "BSC", "memory": "raw"}, {"name": "FHRR"}, {"name": "HRR", "unitary": True}, {"name": "GHRR"}]


def of_sums(d):
    """Architectures whose bundles are sums of vectors of one length."""
    return [VSA(**({"name": "MAP-I", "d": d} | options)) for options in SUMS]


@pytest.mark.parametrize("vsa", of_sums(10_000), ids=short)
def test_n_grams_find_planted_repeats(vsa, generator):
    """The inner product of two texts counts common n-grams: its noise is the root of products of different ones."""
    letters = vsa.random(26, generator)
    text, other = (torch.randint(26, (200,), generator=generator) for _ in range(2))
    planted = other.clone()
    planted[50:80] = text[100:130]
    one, two, three = (ngrams(vsa, letters[each], 4) for each in (text, other, planted))
    noise = math.sqrt(197 * 197 / 10_000)
    counts = vsa.dot_similarity(one, torch.stack((two, three))) / vsa.mean_bound_energy
    assert abs(counts[0]) < 5 * noise and abs(counts[1] - 27) < 5 * noise < 27


def test_tables_and_graphs_are_those_that_change(unbinding, generator):
    keys, values = unbinding.random(4, generator), unbinding.random(4, generator)
    table, edges = HashTable(unbinding), Graph(unbinding, directed=True)
    table.add(keys, values)
    edges.add(keys, values)
    assert same(hash_table(unbinding, keys, values), table.vector)
    assert same(graph(unbinding, keys, values, directed=True), edges.vector)


# Structures that change


def test_a_table_returns_what_was_put_in(unbinding, generator):
    n = few(unbinding)
    keys, values = unbinding.random(n, generator), unbinding.random(n + 1, generator)
    table = HashTable(unbinding)
    table.add(keys, values[:n])
    assert nearest(unbinding, table.get(keys), values).tolist() == list(range(n))
    table.replace(keys[0], values[0], values[n])
    table.remove(keys[1], values[1])
    assert len(table) == n - 1
    again = HashTable(unbinding)
    again.add(keys[2:], values[2:n])
    again.add(keys[0], values[n])
    assert same(table.vector, again.vector)
    assert nearest(unbinding, table.get(keys[0]), values).item() == n


@pytest.mark.parametrize("vsa", [vsa for d in (256, 1_024) for vsa in of_sums(d)], ids=str)
def test_a_table_holds_what_the_capacity_theory_says(vsa, generator):
    """40 pairs among 40 values: the right cosine is that of 1 with 39 of noise, and each of 39 others one of 40."""
    questions, wrong = 0, 0
    for _ in range(8):
        keys, values = vsa.random(40, generator), vsa.random(40, generator)
        table = hash_table(vsa, keys, values)
        wrong += nearest(vsa, vsa.unbind(table, keys), values).ne(torch.arange(40)).sum().item()
        questions += 40
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    right = torch.special.ndtr((1 + grid * math.sqrt(39 / vsa.d)) / math.sqrt(40 / vsa.d)) ** 39
    share = 1 - float((right * (-grid.square() / 2).exp()).sum() / (-grid.square() / 2).exp().sum())
    # Four deviations, and as much again because the questions to one table share its values.
    assert abs(wrong - questions * share) < 8 * math.sqrt(questions * share * (1 - share)) + 1
    assert vsa.d > 256 or wrong > 40


def test_taking_everything_out_leaves_nothing(unbinding, generator):
    x, y = unbinding.random(3, generator), unbinding.random(3, generator)
    structures = Multiset(unbinding), HashTable(unbinding), Graph(unbinding), Tree(unbinding, x), Automaton(unbinding)
    given = (x,), (x, y), (x, y), (y[0], (0, 2, 1)), (x, y, x)
    for structure, vectors in zip(structures, given, strict=True):
        structure.add(*vectors)
        assert len(structure) > 0 and structure.total.abs().sum() > 0
        structure.remove(*vectors)
        assert len(structure) == 0 and structure.total.abs().max() < 1e-5
        structure.add(*vectors)
        structure.clear()
        assert len(structure) == 0 and not structure.total.any()


def test_sequences_change_at_both_ends(vsa, generator):
    x = vsa.random(5, generator)
    word = Sequence(vsa, x[1:4])
    word.appendleft(x[0])
    word.append(x[4])
    assert same(word.vector, bundle_sequence(vsa, x))
    word.popleft(x[0])
    word.pop(x[4])
    assert same(word.vector, bundle_sequence(vsa, x[1:4]))
    word.replace(1, x[2], x[0])
    assert same(word.vector, bundle_sequence(vsa, x[[1, 0, 3]]))
    if vsa.name != "BSDC-CDT":
        assert [nearest(vsa, each, x).item() for each in word] == [1, 0, 3]
    assert same(word[-1], word[2])


def test_two_sequences_become_one(vsa, generator):
    x = vsa.random(5, generator)
    both = Sequence(vsa, x[:2]).concat(Sequence(vsa, x[2:]))
    assert same(both.vector, bundle_sequence(vsa, x)) and len(both) == 5
    for wrong in (x, Sequence(VSA("MAP-I", 32))):
        with pytest.raises((TypeError, ValueError), match=r"other must be a Sequence|of another scheme"):
            both.concat(wrong)


def test_stacks_give_back_what_lies_on_top(vsa, generator):
    x = vsa.random(3, generator)
    stack = Stack(vsa)
    for each in x:
        stack.push(each)
    for place in (2, 1, 0):
        assert nearest(vsa, stack.top, x).item() == place
        stack.pop(x[place])
    with pytest.raises(ValueError, match="The sequence is empty"):
        _ = stack.top


@pytest.mark.parametrize("directed", [True, False])
def test_graphs_tell_neighbors(unbinding, directed, generator):
    nodes = unbinding.random(4, generator)
    own = Graph(unbinding, directed=directed)
    own.add(nodes[[0, 1]], nodes[[1, 2]])
    likeness = unbinding.similarity(own.neighbors(nodes[1]), nodes)
    assert likeness.argsort(descending=True)[: 1 if directed else 2].sort().values.tolist() == (
        [2] if directed else [0, 2]
    )
    there, other = own.similarity(nodes[0], nodes[1:3])
    assert there > other and same(own.similarity(nodes[0], nodes[1]), there)
    assert own.similarity(nodes[:2].unsqueeze(1), nodes.unsqueeze(0)).shape == (2, 4)
    assert len(own) == 2


def test_trees_give_leaves_back(unbinding, generator):
    branches, leaves = unbinding.random(2, generator), unbinding.random(3, generator)
    tree = Tree(unbinding, branches)
    paths = [(0,), (1, 0), (1, 1)]
    for leaf, path in zip(leaves, paths, strict=True):
        tree.add(leaf, path)
    assert [nearest(unbinding, tree.get(path), leaves).item() for path in paths] == [0, 1, 2]
    with pytest.raises(ValueError, match="between 0 and 1"):
        tree.get((2,))


def test_automata_run(unbinding, generator):
    states, tokens = unbinding.random(3, generator), unbinding.random(2, generator)
    rules = [(0, 0, 1), (1, 0, 2), (2, 1, 0)]
    automaton = Automaton(unbinding)
    for state, token, then in rules:
        automaton.add(states[state], tokens[token], states[then])
    state = 0
    for token, expected in [(0, 1), (0, 2), (1, 0), (0, 1)]:
        state = nearest(unbinding, automaton.step(states[state], tokens[token]), states).item()
        assert state == expected


def test_bags_count(generator):
    vsa = VSA("FHRR", 4096)
    x = vsa.random(3, generator)
    bag = Multiset(vsa)
    bag.add(x[[0, 0, 1]])
    assert bag.counts(x).round().tolist() == [2, 1, 0]
    assert bag.similarity(x).argmax() == 0


# Factors


FACTORING = [
    VSA("MAP-I", D),
    VSA("MAP-B", D),
    VSA("BSC", D),
    VSA("FHRR", D),
    VSA("HRR", D, unitary=True),
    VSA("CGR", D),
]


@pytest.mark.parametrize("activation", ["linear", "attention"])
@pytest.mark.parametrize("vsa", FACTORING, ids=short)
def test_factors_are_found_far_below_capacity(vsa, activation, generator):
    """1,000 products of three factors of ten: far below what resonators of a thousand dimensions hold."""
    books = [vsa.random(10, generator) for _ in range(3)]
    which = torch.randint(10, (40, 3), generator=generator)
    bound = vsa.multibind(torch.stack([book[which[:, place]] for place, book in enumerate(books)], 1))
    found, converged, rounds = factorize(vsa, bound, books, activation=activation, rounds=50)
    assert torch.equal(found[converged], which[converged])
    # Over seeds 0.92 converge, at least: of 40 all but three, minus four deviations of the binomial distribution.
    assert converged.sum() >= 30 and rounds <= 50


def test_a_search_without_success_says_so(generator):
    vsa = VSA("MAP-I", 256)
    books = [vsa.random(5, generator) for _ in range(2)]
    assert not factorize(vsa, vsa.random(2, generator), books, rounds=5).converged.any()
    for other in (VSA("GHRR", 72), VSA("MBAT", 64), VSA("BSDC-CDT", 64)):
        with pytest.raises(ValueError, match="commutative, associative and invertible"):
            factorize(other, other.random(1, generator), [])
    with pytest.raises(ValueError, match="codebooks must be at least two"):
        factorize(vsa, books[0], books[:1])


# Bad input


def test_what_is_refused_changes_nothing(generator):
    vsa = VSA("MAP-I", 64)
    x = vsa.random(5, generator)
    word, table = Sequence(vsa, x[:3]), HashTable(vsa)
    table.add(x[:2], x[:2])
    for held, act, message in (
        (word, lambda: word.replace(1, x[1], x[0][:5]), "of another scheme"),
        (word, lambda: word.append(x[:2]), "Pass one vector at a time"),
        (table, lambda: table.replace(x[0], x[0], x[:3]), "the same number of vectors, got 1 and 3"),
        (table, lambda: table.replace(x[:3], x[:3], x[:3]), "Cannot replace 3 vectors: only 2 are stored"),
    ):
        total, count = held.total.clone(), len(held)
        with pytest.raises(ValueError, match=message):
            act()
        assert torch.equal(held.total, total) and len(held) == count


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda v, x: ngrams(v, x, 6), ValueError, "n must be at most 5, .* got 6"),
        (lambda v, x: ngrams(v, x[:0]), ValueError, "n >= 1"),
        (lambda v, x: bundle_sequence(v, x[:0]), ValueError, "n >= 1"),
        (lambda v, x: multiset(v, x[0]), ValueError, "n >= 1"),
        (lambda v, x: multiset(VSA("MAP-I", 32), x), ValueError, r"shape \(\*, n, 32\)"),
        (lambda v, x: multiset(OSC(12), x), TypeError, "got OSC. Use Memory"),
        (lambda v, x: HashTable(TPR(8)), TypeError, "got TPR. Use Memory"),
        (lambda v, x: hash_table(v, x, x[1:]), ValueError, "keys and values must have the same number"),
        (lambda v, x: hash_table(v, None, x), TypeError, "vectors must be one tensor"),
        (lambda v, x: graph(v, [1.0], x), TypeError, "vectors must be one tensor"),
        (lambda v, x: Multiset(v).remove(x), ValueError, "Cannot remove 5 vectors: only 0 are stored"),
        (lambda v, x: Multiset(v).add(x[:, 1:]), ValueError, r"shape \(\*, 64\)"),
        (lambda v, x: Sequence(v).pop(x[0]), ValueError, "The sequence is empty"),
        (lambda v, x: Sequence(v, x)[5], IndexError, "index 5 is out of range"),
        (lambda v, x: Tree(v, x).get(()), ValueError, "at least one branch"),
        (lambda v, x: Tree(v, x).add(x[0], 0), TypeError, "a tuple of branch numbers, got 0"),
        (lambda v, x: Tree(v, x).get("ab"), TypeError, "a tuple of branch numbers, got 'ab'"),
        (lambda v, x: Tree(v, x[0]), ValueError, "branches must have shape"),
        (lambda v, x: Sequence(v, x)[1:2], TypeError, "index must be an integer, got slice"),
        (lambda v, x: Sequence(v, x).append(x[:2]), ValueError, "Pass one vector at a time"),
        (lambda v, x: Sequence(v, x).appendleft(x[:2]), ValueError, "Pass one vector at a time"),
        (lambda v, x: Sequence(v, x).pop(x[:2]), ValueError, "Pass one vector at a time"),
        (lambda v, x: Sequence(v, x).popleft(x[:2]), ValueError, "Pass one vector at a time"),
        (lambda v, x: Sequence(v, x).replace(0, x[:2], x[0]), ValueError, "Pass one vector at a time"),
        (
            lambda v, x: HashTable(v).add(x[:2], x[:3]),
            ValueError,
            r"keys and values must have matching batch shapes, got \(2,\) and \(3,\)",
        ),
        (lambda v, x: HashTable(v).replace(x[0], x[1], x[2]), ValueError, "Cannot .* 1 vectors: only 0 are stored"),
        (
            lambda v, x: Graph(v).add(x[:2], x[:3]),
            ValueError,
            r"sources and targets must have matching batch shapes, got \(2,\) and \(3,\)",
        ),
        (lambda v, x: Multiset(v).add([x[0]]), TypeError, "must be tensors, got list"),
        (lambda v, x: multiset(v, [x[0], x[1]]), TypeError, "Use torch.stack"),
        (lambda v, x: graph(v, x, x[:2]), ValueError, "sources and targets must have the same number"),
        (lambda v, x: nearest(v, x, x[:0]), ValueError, "n >= 1"),
        (lambda v, x: nearest(v, x, x, threshold="high"), TypeError, "threshold must be a number, got 'high'"),
        (lambda v, x: hash_table(v, x, x > 0), ValueError, "of another scheme or dimension"),
        (lambda v, x: v.bind(x, VSA("MAP-I", 32).fillers(range(5))), ValueError, "of another scheme or dimension"),
        (lambda v, x: v.similarity(x, x > 0), ValueError, "of another scheme or dimension"),
        (lambda v, x: v.bundle(x[:, :32]), ValueError, "of another scheme or dimension"),
        (lambda v, x: VSA("FHRR", 128).bind(x, x), ValueError, "of another scheme or dimension"),
        (lambda v, x: VSA("BSC", 32).unbind(x > 0, x > 0), ValueError, "of another scheme or dimension"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(call, error, message, generator):
    vsa = VSA("MAP-I", 64)
    with pytest.raises(error, match=message):
        call(vsa, vsa.random(5, generator))

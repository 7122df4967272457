import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from carving import OSC, SCHEMES, make, top
from carving.inference.likelihood import Likelihood, scoring_model
from carving.inference.top_k import MIN_SPLIT_SCORES as MANY
from carving.inference.top_k import SPLIT_WIDTH as PART
from carving.inference.top_k import CandidateList, best_of, search


def sorted_by_hand(scores, k):
    """The k largest of each row by plain Python: larger first, then earlier."""
    return [sorted(range(len(row)), key=lambda i: (-row[i], i))[:k] for row in scores.tolist()]


@given(
    st.integers(1, 5).flatmap(lambda w: st.lists(st.lists(st.integers(0, 3), min_size=w, max_size=w), min_size=1)),
    st.integers(1, 6),
)
def test_ties_stand_in_order(rows, k):
    scores = torch.tensor(rows, dtype=torch.float32)
    found = best_of(scores, k)
    assert found.indices.tolist() == sorted_by_hand(scores, k)
    assert_close(found.scores, scores.gather(1, found.indices))


@given(st.integers(1_024, 1_300), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_the_largest_of_long_rows_is_found_in_parts(width, seed, ties, odd):
    """What torch finds in one pass over rows too short to be worth it, ties, infinities and what is no number too."""
    draw = torch.Generator().manual_seed(seed)
    scores = (
        torch.randint(0, 9, (65, width), generator=draw).float() if ties else torch.randn(65, width, generator=draw)
    )
    if odd:
        scores[0], scores[1] = -torch.inf, torch.inf
        scores[torch.arange(2, 9), torch.randint(0, width, (7,), generator=draw)] = torch.nan
    for rows in (scores, torch.cat([scores, scores], 1)[:, 3 : width + 3]):
        assert rows.numel() >= MANY
        found, values = best_of(rows, 1), rows.max(dim=1, keepdim=True)
        assert torch.equal(found.indices, values.indices)
        assert_close(found.scores, values.values, equal_nan=True)


@given(st.integers(1, 3), st.integers(0, 200), st.integers(0, 2**32), st.sampled_from([3, 60, 10**6]))
def test_the_best_of_long_rows_are_found_in_parts(k, more, seed, values):
    """Where many are equal, few, and none; parts that end with the row, and rows that end within one."""
    width = PART * max(16, 8 * k) + more
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, values, (MANY // width + 1, width), generator=draw).float()
    found = best_of(scores, k)
    few = scores[:5]
    assert found.indices[:5].tolist() == sorted_by_hand(few, k)
    best = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found.indices, best.indices[:, :k])
    assert torch.equal(found.scores, best.values[:, :k])


@pytest.fixture(params=[1_000, 2**25], ids=["small workspace", "large workspace"])
def asked(request):
    scheme = OSC(16, 2, workspace=request.param)
    contexts = scheme.contexts([(i,) for i in range(9)])
    candidates = scheme.fillers(range(50))
    return scheme, scheme.trace(contexts, candidates[:9]), contexts, candidates


@pytest.mark.parametrize("k", [1, 3, 50])
def test_top_is_what_sorting_all_scores_gives(asked, k):
    scheme, memory, contexts, candidates = asked
    found = top(scheme, memory, contexts, candidates, k)
    scores = scheme.score(memory, contexts, candidates)
    assert found.indices.tolist() == sorted_by_hand(scores, k)
    assert_close(found.scores, scores.gather(1, found.indices))


@pytest.mark.parametrize("max_rows", [1, 4, None])
@pytest.mark.parametrize("chosen", [None, torch.tensor([40, 3, 17]), torch.arange(27).view(9, 3)])
def test_tiles_of_any_size_give_one_ranking(asked, max_rows, chosen):
    scheme, memory, contexts, candidates = asked
    odds = Likelihood(torch.full((50,), 0.1), torch.zeros(50), 1.0)
    model = scoring_model(scheme, odds)
    whole = search(scheme, memory, contexts, candidates, 3, model, chosen)
    listing = CandidateList.of(scheme, candidates, chosen, 9, 3)
    parts = [ranking for _, ranking in listing.search(scheme, memory, contexts, 3, model, max_rows)]
    assert len(parts) >= 9 / (max_rows or 9)
    for one, other in zip(whole, zip(*parts, strict=True), strict=True):
        assert_close(one, torch.cat(other))


def test_equal_scores_stand_in_the_vocabularys_order(asked):
    scheme, memory, contexts, candidates = asked
    found = top(scheme, torch.zeros_like(memory), contexts, candidates, 4)
    assert found.indices.tolist() == [[0, 1, 2, 3]] * 9


def test_among_restricts_all_contexts_alike(asked):
    scheme, memory, contexts, candidates = asked
    candidate_indices = torch.tensor([40, 3, 17, 3])
    found = top(scheme, memory, contexts, candidates, 3, candidate_indices=candidate_indices)
    scores = scheme.score(memory, contexts, candidates)
    masked = torch.full_like(scores, -torch.inf)
    masked[:, candidate_indices] = scores[:, candidate_indices]
    assert found.indices.tolist() == sorted_by_hand(masked, 3)


def test_among_restricts_each_context_on_its_own(asked):
    scheme, memory, contexts, candidates = asked
    generator = torch.Generator().manual_seed(3)
    candidate_indices = torch.stack([torch.randperm(50, generator=generator)[:7] for _ in range(9)])
    candidate_indices[2, 3:] = -1
    candidate_indices[5, 1] = candidate_indices[5, 0]
    found = top(scheme, memory, contexts, candidates, 2, candidate_indices=candidate_indices)
    scores = scheme.score(memory, contexts, candidates)
    masked = torch.full_like(scores, -torch.inf)
    for row, own in enumerate(candidate_indices):
        masked[row, own[own >= 0]] = scores[row, own[own >= 0]]
    assert found.indices.tolist() == sorted_by_hand(masked, 2)
    assert_close(found.scores, scores.gather(1, found.indices))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("workspace", [3_000, 2**25])
def test_labels_will_do_for_candidates(name, workspace):
    scheme = make(name, d=64, workspace=workspace, dtype=torch.float64)
    paths, labels = [(i,) for i in range(6)], list(range(40))
    memory = scheme.trace(paths, labels[:6])
    scores = scheme.score(memory, paths, scheme.fillers(labels))
    best = scores.sort(dim=1, descending=True).values[:, :3]
    for places in (paths, scheme.contexts(paths)):
        found = top(scheme, memory, places, labels, 3)
        assert_close(found.scores, best)
        assert_close(scores.gather(1, found.indices), best)  # the indices, up to ties that rounding decides


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_indices_of_any_integer_dtype_will_do(asked, dtype):
    candidate_indices = torch.tensor([[3, 7]] * 9)
    expected = top(*asked, candidate_indices=candidate_indices).indices
    assert torch.equal(top(*asked, candidate_indices=candidate_indices.to(dtype)).indices, expected)
    assert torch.equal(top(*asked, candidate_indices=candidate_indices[0].to(dtype)).indices, expected)


def test_paths_will_do_for_contexts(asked):
    scheme, memory, contexts, candidates = asked
    paths = [(i,) for i in range(9)]
    assert torch.equal(
        top(scheme, memory, paths, candidates).indices, top(scheme, memory, contexts, candidates).indices
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            dict(k=51),
            ValueError,
            "k must be an integer between 1 and 50, got 51. It cannot exceed the number of candidates",
        ),
        (dict(k=0), ValueError, "k must be"),
        (dict(k=1.0), TypeError, "k must be"),
        (dict(k=3, candidate_indices=torch.tensor([1, 2])), ValueError, "k must be an integer between 1 and 2, got 3"),
        (
            dict(k=2, candidate_indices=torch.tensor([[1, -1]] * 9)),
            ValueError,
            "k must be an integer between 1 and 1, got 2",
        ),
        (
            dict(candidate_indices=torch.tensor([[1, 2]])),
            ValueError,
            r"candidate_indices must have shape \(9, any\), got \(1, 2\)",
        ),
        (dict(candidate_indices=torch.tensor([50])), ValueError, r"indices from 0 to 49, got 50 to 50"),
        (dict(candidate_indices=torch.tensor([-1])), ValueError, r"indices from 0 to 49, got -1"),
        (dict(candidate_indices=torch.tensor([[-2]] * 9)), ValueError, r"indices from -1 to 49, got -2"),
        (dict(candidate_indices=torch.tensor([[-1]] * 9)), ValueError, "candidate_indices has none for some"),
        (dict(candidate_indices=torch.ones(50, dtype=torch.bool)), TypeError, r"nonzero\(\).squeeze\(1\)"),
        (
            dict(candidate_indices=torch.tensor([1.0])),
            TypeError,
            "candidate_indices must be a tensor of integers, got torch.float32",
        ),
        (dict(candidate_indices=[1, 2]), TypeError, r"got list. Pass torch.tensor\(indices\)"),
    ],
)
def test_bad_questions_are_refused(asked, arguments, error, message):
    with pytest.raises(error, match=message):
        top(*asked, **arguments)

"""The sieve: answers from scores in few bits are those that float32 gives, by bounds that hold."""

import gc
import math
from itertools import chain

import pytest
import torch
from torch import Tensor

from carving import OSC, Memory
from carving.errors import BadValue
from carving.inference import get_sieve, precision, set_sieve, sieve, top
from carving.inference.likelihood import Likelihood, log_prior, most_likely, probabilities, rating
from carving.inference.ranking import Ranking, Rated, Rating
from carving.inference.sieve import KINDS, Coarse, Heights, Products
from carving.inference.sifting import Sifting

SCHEME = OSC(d=16, p=2, k1=4, compact=True)  # of codes of 16 numbers
PLAIN = Rating(SCHEME.read, lambda cores, _, codes, __, inner: Rated(product(cores, codes, inner)), contextual=False)
THERE = tuple(filter(precision.available, KINDS))
SOME = THERE[-1] if THERE else "int8"
L, ROWS, SIZE, UNIT = 1024, 384, 16, 2.0**-24


def product(cores: Tensor, codes: Tensor, inner: Tensor | None) -> Tensor:
    return cores.flatten(1) @ codes.mT if inner is None else inner


@pytest.fixture(autouse=True)
def untouched(request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if params.get("kind") in set(KINDS) - set(THERE):
        pytest.skip("this processor has no such product, and some are killed by trying")
    yield
    set_sieve("auto")
    precision._experience.clear()
    precision.available.cache_clear()
    precision.promising.cache_clear()


# Cases: cores (n, c) and codes (L, c)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def powers(seed: int, count: int, low: float, high: float) -> Tensor:
    return 10 ** (low + (high - low) * torch.rand(count, 1, generator=torch.Generator().manual_seed(seed)))


def whole_numbers(seed: int, most: int, *shape: int) -> Tensor:
    return torch.randint(-most, most + 1, shape, generator=torch.Generator().manual_seed(seed)).float()


def held(seed: int, n: int, total: int, size: int) -> tuple[Tensor, Tensor]:
    """What a memory gives: outer products of unit vectors, and these in noise."""
    side = math.isqrt(size)
    left, right = (torch.nn.functional.normalize(normal(seed + i, total, side), dim=1) for i in (0, 1))
    codes = (left.unsqueeze(2) * right.unsqueeze(1)).flatten(1)
    return codes[torch.arange(n) % total] + 0.1 * normal(seed + 2, n, size), codes


def cases(seed: int, n: int = ROWS, total: int = L, size: int = SIZE) -> dict[str, tuple[Tensor, Tensor]]:
    cores, codes = normal(seed, n, size), normal(seed + 1, total, size)
    few = codes[: total // 8].repeat(8, 1)
    gaps = torch.where(torch.arange(total).unsqueeze(1) % 3 == 0, 0.0, 1.0)
    return {
        "random": (cores, codes),
        "held": held(seed, n, total, size),
        "heavy tails": (cores / normal(seed + 2, n, size), codes / normal(seed + 3, total, size)),
        "copies": (cores, few),
        "near ties": (cores, few * (1 + 3e-7 * normal(seed + 4, total, 1))),
        "near ties of bfloat16": (cores, few + 1e-2 * normal(seed + 5, total, size)),
        "uneven codes": (cores, codes * powers(seed + 6, total, -12, 6)),
        "uneven cores": (cores * powers(seed + 7, n, -14, 12), codes),
        "tiny": (cores, 1e-30 * codes),
        "sparse": (cores * (cores.abs() > 1.5), codes * (codes.abs() > 1.5)),
        "zeros": (cores * (torch.arange(n) % 2).unsqueeze(1), codes * gaps),
        "signs": (normal(seed, n, size).sign(), normal(seed + 1, total, size).sign()),
        "one giant": (cores, codes * torch.where(torch.arange(total) == 7, 1e4, 1.0).unsqueeze(1)),
        "one for each": (cores, codes * torch.where(torch.arange(total) % 64 == 7, 1e2, 1.0).unsqueeze(1)),
        "below zero": (cores.abs(), -codes.abs()),
        "whole numbers": (whole_numbers(seed, 40, n, size), whole_numbers(seed + 1, 40, total, size)),
        "whole copies": (whole_numbers(seed, 9, n, size), whole_numbers(seed + 1, 9, total // 8, size).repeat(8, 1)),
    }


EXACT = ("signs", "whole numbers", "whole copies")  # whose sums float32 does not round
ALL = tuple(cases(0, 8, 64))


# The bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_no_float32_score_exceeds_its_ceiling_and_none_lies_twice_the_bound_below(kind, name):
    for size in (16, 144):
        cores, codes = cases(size, 256, 1000, size)[name]
        products, every = bounded(cores, codes, kind)
        sane, highest = products.sane, Heights.of(products, None, len(codes)).of_groups().double()
        coarse = (products.numbers.double() * products.scales.unsqueeze(2)).abs() if kind == "bfloat16" else 0
        wide = 2 * products.width.double().unsqueeze(2).expand(-1, -1, sieve.SIZE) + 2.0**-7 * coarse
        below = every - (1 + 1e-6) * wide.flatten(1)[:, :1000]
        exact = cores.double() @ codes.double().mT
        for scores in (exact, (cores @ codes.mT).double(), (cores.flip(1) @ codes.flip(1).mT).double()):
            assert bool((scores <= every)[sane].all())
            assert bool((scores >= below)[sane].all())
            assert bool((scores <= highest.repeat_interleave(sieve.SIZE, 1)[:, :1000])[sane].all())
        assert int(sane.sum()) > (100 if name in ("zeros", "uneven cores", "sparse") else 250)


def bounded(cores: Tensor, codes: Tensor, kind: str) -> tuple[Products, Tensor]:
    """Coarse products, and the ceilings (n, L) of all candidates."""
    products = Coarse.of(codes, kind).products(cores)
    rows, groups = torch.ones(products.width.shape).nonzero(as_tuple=True)
    inside = Heights.of(products, None, len(codes)).within(rows, groups).view(len(cores), -1)
    assert bool((inside[:, len(codes) :] == -math.inf).all())
    return products, inside[:, : len(codes)].double()


@pytest.mark.parametrize(("kind", "size", "factor"), [("bfloat16", 16, 4), ("int8", 16, 4), ("int8", 144, 6)])
def test_the_bound_is_of_the_size_of_the_largest_error(kind, size, factor):
    cores, codes = cases(1, 512, 2048, size)["random"]
    ceilings, exact = bounded(cores, codes, kind)[1], cores.double() @ codes.double().mT
    lengths = cores.norm(dim=1, keepdim=True).double() * codes.norm(dim=1).double()
    largest = (ceilings - exact).div(lengths)  # from nothing to twice the bound
    bound = largest.max() / 2
    assert float((largest - largest.mean()).abs().max()) > float(bound) / factor


# The answers


def asked(cores: Tensor, codes: Tensor, k: int, rated: Rating = PLAIN, part: slice | None = None) -> Sifting:
    side = math.isqrt(cores.shape[1])
    contexts = SCHEME.contexts([("one",)])[[0] * len(cores)] if rated.contextual else None
    return Sifting(SCHEME, codes, cores.view(-1, side, side), contexts, k, rated, part or slice(0, len(codes)))


def check_same(found: Ranking, wanted: Ranking, exact: Tensor, rounding: Tensor, name: str) -> None:
    """Equal indices and scores; where float32 rounds sums, those may swap whose scores it cannot tell apart."""
    if name in EXACT:
        assert found.best.indices.equal(wanted.best.indices), name
        assert found.best.scores.equal(wanted.best.scores), name
    apart = exact.gather(1, found.best.indices) - exact.gather(1, wanted.best.indices)
    assert bool((apart.abs() <= 2 * rounding).all()), name
    assert bool(((found.best.scores.double() - wanted.best.scores.double()).abs() <= 2 * rounding).all()), name
    assert bool((found.best.indices.sort(1).values.diff(dim=1) > 0).all()), name


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_million_answers_of_each_kind_are_those_of_float32(kind):
    answers, again = 0, dict.fromkeys(ALL, 0)
    for seed, k in enumerate((1, 3, 10, 30, 50)):
        for name, (cores, codes) in cases(100 * seed).items():
            asking = asked(cores, codes, k)
            found, rows = asking.sieved(Coarse.of(codes, kind))
            exact = cores.double() @ codes.double().mT
            lengths = cores.double().norm(dim=1) * codes.double().norm(dim=1).max()  # squares of tiny ones underflow
            rounding = 2 * SIZE * UNIT * lengths.unsqueeze(1)
            check_same(found, asking.whole(), exact, rounding, name)
            answers += found.best.indices.numel()
            again[name] += rows
    assert answers > 500_000
    assert again["random"] < ROWS  # of five times as many: the sieve was at work
    assert again["held"] < 2 * ROWS
    assert again["tiny"] == 5 * ROWS  # and was not where it cannot tell


@pytest.mark.parametrize("kind", KINDS)
def test_log_odds_of_uneven_candidates_are_those_of_float32(kind):
    again = 0
    for seed, (k, spread) in enumerate(((1, 0.0), (3, 1.0), (10, 0.3), (16, 2.0))):
        for name, (cores, codes) in cases(1000 + 100 * seed, 192).items():
            variance = 0.05 * (spread * normal(seed, L)).exp()
            odds = Likelihood(variance, log_prior(normal(seed + 1, L).exp().double(), 0.5).float(), 1.0)
            asking = asked(cores, codes, k, rating(SCHEME, odds))
            found, rows = asking.sieved(Coarse.of(codes, kind))
            exact = (cores.double() @ codes.double().mT - 0.5) / variance + odds.log_prior.double()
            lengths = (cores.norm(dim=1).double() * codes.norm(dim=1).max() + 1).unsqueeze(1)
            rounding = 2 * (SIZE + 4) * UNIT * (lengths / variance.min() + 20)
            check_same(found, asking.whole(), exact, rounding, "log odds of " + name)
            again += rows
    assert again < 2 * len(ALL) * 192  # half of them


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_off_by_a_thousandth_of_themselves_at_most(kind):
    settled = 0
    for seed, (noise, prior_empty) in enumerate(
        ((1e-3, 0.5), (0.01, 0.5), (0.03, 0.1), (0.1, 0.5), (0.3, 0.0), (10, 0.5))
    ):
        _, codes = held(seed, 1, 4000, SIZE)
        cores = codes[:256] * (torch.arange(256) % 2).unsqueeze(1) + math.sqrt(noise) * normal(seed, 256, SIZE)
        prior = log_prior(torch.ones(4000, dtype=torch.float64), prior_empty)
        odds = Likelihood(torch.full((4000,), noise), prior.float(), 1.0)
        found, again = asked(cores, codes, 3, rating(SCHEME, odds)).sieved(Coarse.of(codes, kind))
        nothing = torch.full((256, 1), math.log(prior_empty) if prior_empty else -math.inf, dtype=torch.float64)
        exact = (cores.double() @ codes.double().mT - 0.5) / noise + prior
        chances = torch.cat([exact, nothing], 1).softmax(1)
        best, empty = map(torch.from_numpy, probabilities(found, prior_empty))
        wanted, logs = (each.gather(1, found.best.indices)[:, 0] for each in (chances, exact))
        slack = 1e-6 * logs.abs() + 1e-6  # what float32 makes of log odds
        assert bool(((best - wanted).abs() <= wanted * (1e-3 + slack)).all())
        assert bool(((empty - chances[:, -1]).abs() <= chances[:, -1] * (1e-3 + slack)).all())
        settled += 256 - again
    assert settled > 500  # of 1,536: the others had all candidates scored in float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_rest_of_a_sum_is_never_more_than_it_is_said_to_be(kind, spread):
    told = 0
    for name, (cores, codes) in cases(7, 192, 1000).items():
        variance = 0.2 * (spread * normal(3, 1000)).exp()
        odds = Likelihood(variance, log_prior(normal(4, 1000).exp().double(), 0.5).float(), 1.0)
        asking = asked(cores, codes, 2, rating(SCHEME, odds))
        lines = asking.rating.lines(asking.cores, asking.contexts, codes, asking.part)
        heights = Heights.of(Coarse.of(codes, kind).products(cores), lines, 1000)
        left = sieve.left(heights, 2, lambda columns, asking=asking: asking._exact(columns, None).scores, math.log(0.5))
        exact = (cores.double() @ codes.double().mT - 0.5) / variance + odds.log_prior.double()
        top, slack = exact.amax(1), 1e-6 * (exact.abs().amax(1) + 20)  # what float32 makes of log odds
        exact.masked_fill_(torch.zeros(192, 1000).scatter_add_(1, left.columns, left.there.float()) > 0, -math.inf)
        rest, said = (exact.logsumexp(1) - top).exp(), (left.rest.double() + slack - top).exp()
        assert bool((rest <= said + 1e-30)[~left.unsure].all()), name
        told += int((~left.unsure).sum())
    assert told > 192


def test_where_many_candidates_are_about_as_likely_all_are_scored_in_float32():
    codes, odds = normal(0, 1000, SIZE), Likelihood(torch.full((1000,), 1e3), torch.full((1000,), -7.0), 1.0)
    asking = asked(normal(1, 40, SIZE), codes, 1, rating(SCHEME, odds))
    found, again = asking.sieved(Coarse.of(codes, SOME))
    assert again == 40
    assert found.log_total.equal(asking.whole().log_total)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_the_candidates_and_odd_sizes_are_sieved_alike(kind):
    for total, start, stop, k in ((64, 0, 64, 1), (999, 100, 777, 7), (1536, 1, 130, 4), (4099, 3, 4098, 9)):
        cores, codes = whole_numbers(1, 9, 37, SIZE), whole_numbers(2, 9, total, SIZE)
        asking = asked(cores, codes, k, part=slice(start, stop))
        found, _ = asking.sieved(Coarse.of(codes[start:stop], kind))
        best = (cores @ codes[start:stop].mT).sort(dim=1, descending=True, stable=True)
        assert found.best.scores.equal(best.values[:, :k])
        assert found.best.indices.equal(best.indices[:, :k] + start)


# Setting and measuring


def test_memories_answer_the_same_whatever_the_sieve():
    memory = Memory(OSC(d=40, p=2, compact=True))
    paths = [("path", i) for i in range(300)]
    memory.store([(path, f"value {i % 257}") for i, path in enumerate(paths)])
    paths += [("elsewhere", i) for i in range(20)]
    contexts, fillers = memory.scheme.contexts(paths), memory.scheme.fillers(range(900))
    given = {}
    for setting in ("off", "auto", *KINDS):
        set_sieve(setting)
        assert get_sieve() == setting
        ranked = top(memory.scheme, memory.tensor, contexts, fillers, 3)
        given[setting] = memory.recall_many(paths, top=5), ranked, memory.recall_sets(paths[:50])
    answers, best, sets = given.pop("off")
    for others, ranked, other_sets in given.values():
        assert [[each.value for each in row] for row in others] == [[each.value for each in row] for row in answers]
        for one, other in zip(chain(*answers), chain(*others), strict=True):
            assert other.score == pytest.approx(one.score, abs=1e-6)
            assert other.probability == pytest.approx(one.probability, rel=1.1e-3)
        assert ranked.indices.equal(best.indices)
        torch.testing.assert_close(ranked.scores, best.scores)
        assert [[each.value for each in row] for row in other_sets] == [[each.value for each in row] for row in sets]


def test_a_sieve_that_is_off_makes_nothing_and_an_unknown_one_is_refused(monkeypatch):
    monkeypatch.setattr(Coarse, "of", lambda *_: pytest.fail("made"))
    cores, codes = cases(0)["random"]
    set_sieve("off")
    asked(cores, codes, 1).ranked()
    set_sieve("bfloat16")
    for other in (asked(cores.double(), codes.double(), 1), asked(cores.requires_grad_(), codes, 1)):
        assert other.ranked().best.scores.dtype == other.cores.dtype
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    asked(cores.detach(), codes, 1).ranked()  # products in float32 are rounded more than the bounds allow for
    with pytest.raises(BadValue, match=r"auto, off, bfloat16, int8, got 'float16'. auto measures"):
        set_sieve("float16")
    assert get_sieve() == "bfloat16"


def test_what_torch_lacks_or_gets_wrong_is_done_in_float32(monkeypatch):
    cores, codes = cases(0)["whole numbers"]
    wanted = asked(cores, codes, 5).whole()
    right = torch._int_mm
    set_sieve("int8")

    def saturating(one: Tensor, other: Tensor) -> Tensor:
        return right(one, other).clamp(-(2**15), 2**15 - 1)

    for wrong in (None, saturating):
        precision.available.cache_clear()
        with monkeypatch.context() as changed:
            changed.setattr(torch, "_int_mm", wrong) if wrong else changed.delattr(torch, "_int_mm")
            changed.setattr(Coarse, "of", lambda *_: pytest.fail("made"))
            assert not precision.available("int8")
            assert asked(cores, codes, 5).ranked().best.indices.equal(wanted.best.indices)
    precision.available.cache_clear()
    assert tuple(filter(precision.available, KINDS)) == THERE


def test_small_work_is_never_measured_and_large_work_goes_the_way_that_was(monkeypatch):
    cores, codes = cases(0)["random"]
    monkeypatch.setattr(precision, "chosen", lambda *_: pytest.fail("measured"))
    asked(cores[:15], codes, 1).ranked()
    asked(cores, codes, 1).ranked()
    ways = []

    def chosen(shape, work, trial, cost):
        assert work == ROWS * L * SIZE and cost <= work
        for kind in (None, *THERE):
            ways.append(kind)
            assert trial(kind) is not None
        return SOME

    monkeypatch.setattr(precision, "WORTH", ROWS * L * SIZE)
    monkeypatch.setattr(precision, "chosen", chosen)
    found = asked(cores, codes, 3).ranked()
    assert ways == [None, *THERE]
    assert list(sieve.keep(codes).made) == [(SOME, 0, L)]  # the way that was chosen, and nothing else is kept
    assert found.best.indices.equal(asked(cores, codes, 3).whole().best.indices)


# What is kept


@pytest.mark.parametrize(("kind", "share"), [("bfloat16", 2), ("int8", 4)])
def test_codes_in_few_bits_are_made_once_kept_with_the_codes_and_small(kind, share):
    before, codes = len(sieve._kept), normal(0, 2000, 144)
    whole, half = slice(0, 2000), slice(1000, 2000)
    made = sieve.coarse(codes, kind, whole)
    assert sieve.coarse(codes, kind, whole) is made
    assert made.nbytes <= codes.nbytes / share + 3 * 4 * 2000
    sieve.coarse(codes, kind, half)
    assert list(sieve.keep(codes).made) == [(kind, 1000, 2000)]  # and never twice
    codes[0] += 1
    again = sieve.coarse(codes, kind, whole)
    assert again is not made and not again.numbers[0].equal(made.numbers[0])
    assert len(sieve._kept) == before + 1
    del codes
    gc.collect()
    assert len(sieve._kept) == before


def test_codes_that_are_not_finite_or_far_too_large_are_not_sieved():
    cores, codes = cases(0)["random"]
    for wrong in (math.nan, math.inf, 1e30):
        changed = codes.clone()
        changed[5, 3] = wrong
        set_sieve("bfloat16")
        assert Coarse.of(changed, "bfloat16") is None
        found, wanted = asked(cores, changed, 2).ranked(), asked(cores, changed, 2).whole()
        torch.testing.assert_close(found.best.scores, wanted.best.scores, equal_nan=True)


@pytest.mark.parametrize("spread", [0.0, 0.7])  # contexts of one loudness, and of several
def test_most_likely_goes_through_the_sieve(monkeypatch, spread):
    scheme = OSC(d=60, p=2, compact=True, spread=spread)
    fillers = scheme.fillers(range(700))
    memory = scheme.trace([(i,) for i in range(200)], fillers[:200])
    counts = (torch.arange(700) < 200).double()
    odds = Likelihood(torch.full((700,), 200 / 3600), log_prior(counts, 0.5).float(), 200.0)
    contexts = scheme.contexts([(i,) for i in range(150, 250)])
    set_sieve("off")
    wanted = most_likely(scheme, memory, contexts, fillers, odds, 4)
    seen, sieved = [], Sifting.sieved
    monkeypatch.setattr(Sifting, "sieved", lambda self, coarse: seen.append(coarse.kind) or sieved(self, coarse))
    for kind in KINDS:
        set_sieve(kind)
        found = most_likely(scheme, memory, contexts, fillers, odds, 4)
        assert found.best.indices.equal(wanted.best.indices)
        # Log odds of up to 30, of which float32 knows 2e-6, from sums whose order differs.
        torch.testing.assert_close(found.best.scores, wanted.best.scores, rtol=1.3e-6, atol=1e-4)
        torch.testing.assert_close(found.strengths, wanted.strengths)
    assert seen == list(THERE)

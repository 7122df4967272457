"""Encodings of numbers: the kernel that each states, measured over every scheme; that labels give the same for ever."""

import hashlib
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from carving import OSC, SCHEMES, TPR, VSA, Answer, Memory, make
from carving.encodings import (
    Circular,
    Density,
    FractionalPower,
    Level,
    Projection,
    Random,
    Record,
    Sinusoid,
    Thermometer,
    circular,
    density,
    estimate,
    fractional_power,
    level,
    projection,
    random,
    rounded,
    sinusoid,
    thermometer,
)
from carving.encodings.interpolation import parts_shape
from carving.tensors import chosen

D = {"OSC": 144, "TPR": 400, "CliffordOSC": 30}
EVERY = [
    *(make(name, d=D.get(name, 1024)) for name in SCHEMES),
    OSC(60, 3),
    OSC(144, 2, compact=True),
    VSA("HRR", 1023, unitary=True),
    VSA("CGR", 1024, bundling="mode"),
    VSA("CGR", 1024, bundling="mode", r=5),
    VSA("GHRR", 1152, m=3),
    VSA("BSDC-SEG", 1024, bundling="mode"),
]
DRAWS = 12


@pytest.fixture(params=EVERY, ids=str)
def scheme(request):
    return request.param


def alike(scheme, x, y, seed):
    """How alike vectors are, pair by pair; of contexts in the mean of some."""
    if isinstance(scheme, VSA):
        return scheme.similarity(x, y).diagonal()
    if isinstance(scheme, TPR):
        return (x * y).sum(-1)
    count = 1 if getattr(scheme, "compact", False) else 40  # in which compact fillers are the same
    contexts = scheme.contexts([(seed, number) for number in range(count)])
    cores = [[scheme.encode(v.expand(count, *v.shape), contexts).flatten(1) for v in vectors] for vectors in (x, y)]
    return torch.stack([(one * other).sum(1).mean() for one, other in zip(*cores, strict=True)])


def test_what_contexts_make_of_two_fillers_is_their_score(generator):
    for scheme in EVERY:
        if not isinstance(scheme, VSA | TPR):
            (x, y), contexts = scheme.random(2, generator).split(1), scheme.contexts([("a",)])
            score = scheme.score(scheme.trace(contexts, x), contexts, y)
            assert_close((scheme.encode(x, contexts) * scheme.encode(y, contexts)).sum(), score[0, 0])


def draws(scheme):
    return DRAWS if isinstance(scheme, VSA | TPR) else 160 if getattr(scheme, "compact", False) else 40


def likenesses(scheme, make_code, x, y):
    """Those of encoded numbers, (draws, pairs)."""
    found = []
    for seed in range(draws(scheme)):
        code = make_code(torch.Generator().manual_seed(seed))
        found.append(alike(scheme, code(x), code(y), seed).double())
    return torch.stack(found)


def measured(scheme, make_code, x, y):
    """The mean over draws of the likenesses of encoded numbers."""
    return likenesses(scheme, make_code, x, y).mean(0)


def fits(scheme, make_code, x, y, expected, components=None, more=1.0):
    """Whether likenesses are as expected, within four standard errors.

    Of vectors a share of n independent parts differs, and what differs has products of variance 1/n or less: 1.25/n at
    most. What contexts show is cosines of k1 numbers: their errors are measured, and each is rho (1 - rho^2)/(2 k1)
    less than rho in the mean.
    """
    found = likenesses(scheme, make_code, x, y)
    if isinstance(scheme, VSA | TPR):
        allowed = torch.as_tensor(4 * math.sqrt(1.25 / math.prod(parts_shape(scheme)) / len(found)))
    else:
        count = scheme.p if components is None else components
        rho = expected.abs() ** (1 / count)
        allowed = 4 * found.std(0) / math.sqrt(len(found)) + count * rho * (1 - rho**2) / (2 * scheme.k1)
    return bool(((found.mean(0) - expected).abs() < more * allowed + 1e-4).all())


def the_same(code):
    """An encoding that cannot tell values apart."""
    return lambda values: code(values[:1].expand_as(values))


def not_found(code):
    """An encoding of values that have nothing in common: permuted by as many numbers as it was asked."""
    asked = iter(range(3, 10**6, 7))
    return lambda values: torch.stack([each.flatten().roll(next(asked)).view(each.shape) for each in code(values)])


def check_kernel(scheme, make_code, x, y, expected, **how):
    """That likenesses are as expected, and that encodings which are not would be seen: of pairs that differ."""
    assert fits(scheme, make_code, x, y, expected, **how)
    rest = x[1:], y[1:], expected[1:]
    assert not fits(scheme, lambda source: the_same(make_code(source)), *rest, **how)
    assert not fits(scheme, lambda source: not_found(make_code(source)), *rest, **how)


X = torch.tensor([0.2, 0.2, 0.2, 0.0, 0.5, 0.9])
Y = torch.tensor([0.2, 0.3, 0.6, 1.0, 0.1, 0.35])


@pytest.mark.parametrize("kind", [Level, Circular])
def test_likeness_is_what_the_kernel_says(scheme, kind):
    expected = kind(scheme, label="x").kernel(X - Y)
    check_kernel(scheme, lambda source: kind(scheme, generator=source), X, Y, expected)


def test_symbols_are_strangers_to_each_other(scheme):
    x, y = torch.tensor([2, 0, 1, 2]), torch.tensor([2, 1, 3, 0])
    expected = Random(scheme, 4, label="x").kernel(x - y).double()
    code = lambda source: Random(scheme, 4, generator=source)  # noqa: E731
    assert fits(scheme, code, x, y, expected)
    assert not fits(scheme, code, x, x, expected)
    assert not fits(scheme, lambda source: not_found(code(source)), x, y, expected)
    assert torch.equal(random(scheme, 4, label="x"), Random(scheme, 4, label="x")(range(4)))


def test_thermometers_fall_to_their_opposites(scheme, generator):
    if getattr(scheme, "row", None) is not None and scheme.row.dtype is not None and scheme.row.opposite is None:
        with pytest.raises(ValueError, match=r"does not have. Use Level"):
            Thermometer(scheme, label="x")
        return
    expected = Thermometer(scheme, label="x").kernel(X - Y)
    # Only one component is turned, so that its share is read once.
    check_kernel(scheme, lambda source: Thermometer(scheme, generator=source), X, Y, expected, components=1, more=2)


def test_levels_part_from_the_first_one_by_one():
    """A part that was changed stays so."""
    for scheme in EVERY:
        codes = level(scheme, 9, label="steps")
        assert codes.shape == (9, *scheme.facts.filler_shape)
        assert codes.dtype == scheme.facts.filler_dtype
        if isinstance(scheme, VSA):
            parts = codes if not scheme.row.apart else scheme.row.apart(scheme.space, codes)
            away = (
                (parts - parts[0]).abs() > 1e-4
                if parts.is_floating_point() or parts.is_complex()
                else parts != parts[0]
            )
            changed = away.flatten(1)
            assert (changed[1:] >= changed[:-1]).all()
            assert changed[-1].double().mean() > changed[4].double().mean() > 0


def test_likeness_to_the_first_level_falls_with_every_level(scheme):
    """In the mean of draws: from kernel to kernel it is a quarter, of contexts to the power of p."""
    levels = torch.linspace(0, 1, 5)
    falling = measured(scheme, lambda source: Level(scheme, generator=source), torch.zeros(5), levels)
    assert (falling.diff() < 0).all()


def test_circles_close_exactly(scheme):
    hour = Circular(scheme, 24, label="hour")
    assert torch.equal(hour([0.0, 3.5]), hour([24.0, -20.5]))
    assert torch.equal(circular(scheme, 24, label="hour"), hour(torch.arange(24)))


def test_sparse_codes_keep_their_ones(generator):
    for name in ("BSDC-S", "BSDC-CDT"):
        vsa = VSA(name, 400)
        for codes in (level(vsa, 31, generator=generator), circular(vsa, 31, generator=generator)):
            assert codes.sum(-1).eq(20).all()


def test_encoded_vectors_are_as_atoms_are(generator):
    spectrum = torch.fft.rfft(level(VSA("HRR", 63, unitary=True), 5, generator=generator))
    assert_close(spectrum.abs(), torch.ones(5, 32), rtol=0, atol=1e-5)
    blocks = circular(VSA("GHRR", 72, m=3), 5, generator=generator)
    assert_close(blocks @ blocks.mH, torch.eye(3, dtype=blocks.dtype).expand_as(blocks), rtol=0, atol=1e-5)
    assert_close(level(TPR(40), 5, generator=generator).norm(dim=-1), torch.ones(5))


# Fractional powers

POWERS = [
    VSA("FHRR", 1024),
    VSA("HRR", 1024),
    VSA("HRR", 1023, unitary=True),
    VSA("GHRR", 1024),
    VSA("GHRR", 1152, m=3),
]


@pytest.mark.parametrize("kernel", ["sinc", "gaussian", "exponential"])
@pytest.mark.parametrize("scheme", POWERS, ids=str)
def test_powers_have_the_kernel_that_was_chosen(scheme, kernel):
    x, y = torch.zeros(5), torch.tensor([0.0, 0.3, 1.0, 1.5, 4.0])
    expected = FractionalPower(scheme, kernel=kernel, bandwidth=1.2, label="x").kernel(x - y)
    code = lambda source: FractionalPower(scheme, kernel=kernel, bandwidth=1.2, generator=source)  # noqa: E731
    n = scheme.facts.filler_scalars / 2  # angles; GHRR's blocks share theirs
    n = n / getattr(scheme, "m", 1) if scheme.name == "GHRR" else n
    assert ((measured(scheme, code, x, y) - expected).abs() < 4 / math.sqrt(n * DRAWS)).all()


@pytest.mark.parametrize("scheme", POWERS, ids=str)
def test_binding_powers_adds_their_exponents(scheme, generator):
    double = scheme.like(dtype=torch.float64)
    code = FractionalPower(double, 2, label="place")
    x, y = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64)
    assert_close(double.bind(code(x), code(y)), code(x + y))
    assert_close(code(torch.zeros(2)), double.identity())
    product = FractionalPower(double, label="x").kernel(x - y).prod(-1)
    assert_close(code.kernel(x - y), product, rtol=0, atol=4 / double.d)  # but for frequencies that stay


def test_powers_are_refused_where_there_are_none():
    for scheme in (VSA("MAP-I", 64), VSA("BSC", 64), OSC(12), TPR(8)):
        with pytest.raises(ValueError, match="has no fractional powers"):
            fractional_power(scheme, torch.ones(1), label="x")
    with pytest.raises(ValueError, match="kernel must be one of"):
        FractionalPower(VSA("FHRR", 64), kernel="box", label="x")


# Arrays


@pytest.mark.parametrize("kind", [Projection, Sinusoid])
def test_arrays_are_as_alike_as_the_kernel_says(scheme, kind, generator):
    row = getattr(scheme, "row", None)
    if row is not None and (row.overlap or row.segmented):
        with pytest.raises(ValueError, match=r"Use Record\("):
            kind(scheme, 3, label="x")
        return
    x, y = torch.randn(2, 5, 6, generator=generator).mul_(0.4)
    near = torch.tensor([[1.0], [0.97], [0.9], [0.3], [0.0]])
    y = near * x + (1 - near**2).sqrt() * y
    code = kind(scheme, 6, label="x")
    expected = code.kernel(x, y) if kind is Projection else code.kernel(x - y)
    # Products of normals or of waves have a variance of at most 2/n, and numbers of a block are not independent.
    check_kernel(scheme, lambda source: kind(scheme, 6, generator=source), x, y, expected, more=2)


def test_signs_of_projections_tell_angles(generator):
    vsa = VSA("MAP-B", 10_000)
    x, y = torch.randn(2, 8, 50, generator=generator)
    y = 0.7 * x + y
    code = Projection(vsa, 50, generator=generator)
    found = vsa.similarity(vsa.normalize(code(x)), vsa.normalize(code(y))).diagonal()
    expected = 1 - 2 / math.pi * torch.cosine_similarity(x, y).acos()
    assert ((found - expected).abs() < 4 / math.sqrt(10_000)).all()


SUMS = [VSA("MAP-I", 4096), VSA("BSC", 4096, memory="raw"), VSA("FHRR", 4096), VSA("HRR", 4095, unitary=True)]


@pytest.mark.parametrize("vsa", SUMS, ids=str)
def test_records_are_alike_by_the_mean_of_their_features(vsa, generator):
    x, y = torch.rand(2, 6, 10, generator=generator)
    record = Record(vsa, 10, Level(vsa, label="x"), label="y")
    codes = Density(vsa, 10, label="x"), record
    assert_close(codes[0].kernel(x - y), 1 - 2 * (x - y).abs().mean(-1))
    for made, kernel in ((code(torch.stack((x, y))), code.kernel(x - y)) for code in codes):
        found = vsa.dot_similarity(made[0], made[1]).diagonal() / (vsa.mean_bound_energy * 10)
        # 10 x 10 products of two features, those of different ones of mean 0 and variance 1/d; levels are shares of
        # parts, so that each of the ten has a variance of 1.25/d at most.
        allowed = 4 * math.sqrt((90 + 12.5) / vsa.d) / 10 + 1e-3
        assert ((found - kernel).abs() < allowed).all()
        assert not ((1 - kernel).abs() < allowed).all() and not (kernel.abs() < allowed).all()


def test_records_are_made_of_vectors():
    with pytest.raises(ValueError, match="Record needs a vector symbolic architecture"):
        density(OSC(12), torch.ones(2, 3), label="x")


def test_gradients_reach_values_where_the_space_is_smooth(generator):
    for make_code in (Projection, Sinusoid, FractionalPower):
        values = torch.rand(2, 3, generator=generator, requires_grad=True)
        for vsa in (VSA("FHRR", 64), VSA("HRR", 64)):
            code = make_code(vsa, 3, label="x")
            (gradient,) = torch.autograd.grad(
                code(values).abs().square().cumsum(-1).sum() + code(values).real.sum(), values
            )
            assert gradient.isfinite().all() and gradient.abs().sum() > 0


def test_functions_are_the_modules(generator):
    x = torch.rand(4, 3, generator=generator)
    vsa = VSA("HRR", 64)
    assert torch.equal(projection(vsa, x, label="a"), Projection(vsa, 3, label="a")(x))
    assert torch.equal(sinusoid(vsa, x, label="a", bandwidth=2), Sinusoid(vsa, 3, label="a", bandwidth=2)(x))
    assert torch.equal(fractional_power(vsa, x, label="a"), FractionalPower(vsa, label="a")(x))
    assert torch.equal(level(vsa, 5, label="a"), Level(vsa, label="a")(torch.linspace(0, 1, 5)))
    assert torch.equal(thermometer(vsa, 5, label="a"), Thermometer(vsa, label="a")(torch.linspace(0, 1, 5)))
    code = Thermometer(vsa, label="a")
    assert torch.equal(density(vsa, x, label="a"), Record(vsa, 3, code, label="a")(x))
    grey = Density(vsa, 3, -1, 2, outside="clip", label="a")
    assert torch.equal(density(vsa, 3 * x, -1, 2, outside="clip", label="a"), grey(3 * x))
    assert set(Level(vsa, label="a").state_dict()) == {"blend.first", "blend.second", "blend.places"}


# Where they come from


def digest(x):
    return hashlib.sha256(x.to(torch.int8).contiguous().numpy().tobytes()).hexdigest()[:16]


def test_labels_give_the_same_for_ever():
    """Golden values: they never change."""
    map_i, bsc, cgr = VSA("MAP-I", 64), VSA("BSC", 64), VSA("CGR", 64)
    assert digest(random(map_i, 4, label="x")) == "73687c301e9da1b1"
    assert digest(level(map_i, 7, label="x")) == "1b7bb2bcf9488a01"
    assert digest(circular(bsc, 7, label=3)) == "84cddd76eb7e2a06"
    assert digest(thermometer(bsc, 7, label="x")) == "dcb465261bfe31f4"
    assert digest(level(cgr, 7, label="x")) == "46a2f829d9b46958"
    assert digest(level(VSA("BSDC-S", 64), 7, label="x")) == "2b73b6b6eea94490"
    powers = fractional_power(VSA("FHRR", 64, dtype=torch.float64), torch.tensor(0.5), label="x")
    assert_close(
        powers[:2],
        torch.tensor([0.97013881 + 0.24255038j, 0.99557850 - 0.09393323j], dtype=torch.complex128),
        rtol=0,
        atol=1e-6,
    )
    waves = sinusoid(OSC(12, dtype=torch.float64), torch.ones(2, dtype=torch.float64), label="x")
    assert_close(waves[:, 0], torch.tensor([-1.26497397, -0.95862936], dtype=torch.float64), rtol=0, atol=1e-6)


def test_other_labels_seeds_and_kinds_give_others():
    vsa = VSA("MAP-I", 256)
    first = level(vsa, 2, label="x")[0]
    others = (
        level(vsa, 2, label="y")[0],
        level(vsa.like(seed=1), 2, label="x")[0],
        circular(vsa, 2, label="x")[0],
        vsa.fillers(["x"])[0],
    )
    assert vsa.similarity(first, torch.stack(others)).abs().max() < 5 / 16


# Numbers in memories


def test_memories_hold_numbers_and_recall_the_nearest_level():
    scheme = OSC(128, p=2, compact=True)  # whose interference is the same for all fillers, alike or not
    levels = [round(0.1 * i, 1) for i in range(21)]
    memory = Memory(scheme, levels, level(scheme, 21, label="height"))
    stored = [levels[5 * i % 21] for i in range(10)]
    memory.store([((i, "height"), value) for i, value in enumerate(stored)])
    answers = [memory.recall(i, "height", top=3) for i in range(10)]
    first = [answer[0].value for answer in answers]
    assert first == pytest.approx(stored, abs=0.1001)  # neighbors are alike by 0.9
    assert sum(one == other for one, other in zip(first, stored, strict=True)) >= 9
    assert [estimate(answer) for answer in answers] == pytest.approx(stored, abs=0.1001)
    assert max(sum(each.probability for each in answer) for answer in answers) <= 1.0001
    hours = Memory(scheme, range(24), circular(scheme, 24, label="hour"))
    hours.store([((i, "at"), 7 * i % 24) for i in range(10)])
    around = [estimate(hours.recall(i, "at", top=3), period=24) - 7 * i % 24 for i in range(10)]
    assert max(min(abs(error), 24 - abs(error)) for error in around) < 0.5


@pytest.mark.parametrize("compact", [True, False])
def test_levels_that_were_stored_more_often_do_not_lose_to_their_neighbors(compact):
    """Ordinary fillers stored several times were taken for noisier than their neighbors: 1 of 50 was right."""
    for seed in range(3):
        scheme = OSC(128, 2, compact=compact, seed=seed)
        memory = Memory(scheme, range(21), level(scheme, 21, label="height"))
        stored = [((f"key {i}",), 7 * i % 21) for i in range(10)]
        memory.store(stored)
        answers = memory.recall_many([path for path, _ in stored], prior_empty=0)
        assert [answer.value for answer in answers] == [value for _, value in stored]


def test_estimates_lie_between_levels_and_go_around_circles():
    assert estimate([Answer(1, 1.0, 0.25), Answer(2, 1.0, 0.75)]) == pytest.approx(1.75)
    assert estimate([Answer(350, 1.0, 0.5), Answer(20, 1.0, 0.5)], period=360) == pytest.approx(5)
    assert math.isnan(estimate([Answer(None, 0.1, 0.9, found=False)]))
    assert estimate(Answer(3, 1.0, 0.9)) == 3
    with pytest.raises(TypeError, match="answers must be numbers"):
        estimate([Answer("dog", 1.0, 0.9)])
    with pytest.raises(ValueError, match="answers must have probabilities"):
        estimate([Answer(1, 1.0, math.nan)])


# Bad input


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda s: Level(s, label="x")(1.2),
            ValueError,
            "must lie between low=0 and high=1, got 1.2. Use outside='clip'",
        ),
        (lambda s: Level(s, label="x")(math.nan), ValueError, "must lie between"),
        (lambda s: Level(s, outside="clip", label="x")(math.nan), ValueError, "got NaN"),
        (lambda s: Level(s, 1, 1, label="x"), ValueError, "low must be less than high"),
        (lambda s: Level(s, outside="wrap", label="x"), ValueError, "outside must be one of"),
        (lambda s: Level(s, label="x")([True]), ValueError, "must be real numbers"),
        (lambda s: Circular(s, 0, label="x"), ValueError, "period must be a positive number"),
        (lambda s: Circular(s, label="x")(math.inf), ValueError, "must be finite"),
        (lambda s: level(s, 5), ValueError, "Exactly one of label and generator"),
        (
            lambda s: level(s, 5, label="x", generator=torch.Generator()),
            ValueError,
            "Exactly one of label and generator",
        ),
        (lambda s: level(s, 5, generator=3), TypeError, "must be a torch.Generator"),
        (lambda s: level(s, 1, label="x"), ValueError, "For a single level use"),
        (lambda s: level("MAP-I", 5, label="x"), TypeError, "scheme must be a Scheme"),
        (lambda s: thermometer(s, 66, label="x"), ValueError, "count must be at most 65"),
        (lambda s: Projection(s, 3, label="x")(torch.ones(4)), ValueError, r"must have shape \(\*, 3\)"),
        (lambda s: Sinusoid(s, 3, bandwidth=0, label="x"), ValueError, "bandwidth must be a positive"),
        (lambda s: Record("MAP-I", 3, Level(s, label=1), label=1), TypeError, "scheme must be a Scheme, got 'MAP-I'"),
        (
            lambda s: Record(s, 3, Level(VSA("HRR", 64), label=1), label=1),
            ValueError,
            "must be made for .* got one for .*HRR",
        ),
        (lambda s: Record(s, 3, Level(VSA("MAP-I", 32), label=1), label=1), ValueError, "made for .*d=32"),
        (lambda s: Record(s, 3, None, label=1), TypeError, "encoding must be callable, got None"),
        (lambda s: estimate([Answer(3, 1.0, 0.9)], period=0), ValueError, "period must be a positive number"),
        (lambda s: estimate([Answer(3, 1.0, 0.9)], period=-1), ValueError, "period must be a positive number"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call(VSA("MAP-I", 64))


def test_what_lies_outside_may_be_clipped():
    code = Level(VSA("MAP-I", 64), outside="clip", label="x")
    assert torch.equal(code([-3.0, 1.7]), code([0.0, 1.0]))
    assert rounded(torch.tensor([-1.0, 0.26, 0.5, 9.0]), 0, 1, 3).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: Level(s, label=1)("warm"), TypeError, "must be numbers, got 'warm'"),
        (lambda s: Projection(s, 2, label=1)([[math.nan, 1.0]]), ValueError, "values must be finite"),
        (lambda s: Sinusoid(s, 2, label=1)([[math.inf, 1.0]]), ValueError, "values must be finite"),
        (lambda s: FractionalPower(VSA("FHRR", 64), label=1)(math.nan), ValueError, "values must be finite"),
        (lambda s: projection(s, 3.0, label=1), ValueError, "Use Level for single numbers"),
        (lambda s: rounded("warm", 0, 1, 5), TypeError, "must be numbers, got 'warm'"),
        (lambda s: density(None, [[0.1, 0.2]], label=1), TypeError, "scheme must be a Scheme, got None"),
        (lambda s: projection("HRR", [[0.1, 0.2]], label=1), TypeError, "scheme must be a Scheme, got 'HRR'"),
        (lambda s: Level(s, label=1).kernel(None), TypeError, "must be numbers, got None"),
        (lambda s: Level(s, outside=np.ones(3), label=1), ValueError, "outside must be one of"),
        (lambda s: Projection(s, 3, label=1).kernel([1, 2], [1, 2]), ValueError, r"must have shape \(\*, 3\)"),
        (lambda s: Sinusoid(s, 3, label=1).kernel("a"), TypeError, "must be numbers, got 'a'"),
        (lambda s: Density(s, 3, label=1).kernel(None), TypeError, "must be numbers, got None"),
        (lambda s: FractionalPower(VSA("FHRR", 64), label=1).kernel("a"), TypeError, "must be numbers, got 'a'"),
        (lambda s: rounded([0.5], 0, 1, 10**40), ValueError, "count must be an integer between 2 and"),
        (lambda s: Random(s, 5, label=1)([4, 5]), ValueError, "integers from 0 to 4, got"),
        (lambda s: Random(s, 5, label=1)(-1), ValueError, "integers from 0 to 4"),
        (lambda s: Random(s, 5, label=1)(0.5), ValueError, "Use Level for real numbers"),
        (lambda s: Random(s, 5, label=1)(math.nan), ValueError, "integers from 0 to 4"),
        (lambda s: Random(s, 5, label=1)("a"), TypeError, "must be numbers, got 'a'"),
        (lambda s: Random(s, 0, label=1), ValueError, "count must be an integer of at least 1"),
        (lambda s: Random("MAP-I", 5, label=1), TypeError, "scheme must be a Scheme"),
        (lambda s: Density(s, 0, label=1), ValueError, "features must be an integer of at least 1"),
        (lambda s: Density(VSA("CGR", 64), 3, label=1), ValueError, "does not have. Use Level"),
    ],
)
def test_what_is_no_number_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(VSA("MAP-I", 64))


@pytest.mark.parametrize("as_given", [list, torch.tensor, lambda x: torch.tensor(x, dtype=torch.float64)])
def test_large_numbers_are_told_apart(as_given):
    """Single precision knows the seconds of today to 128."""
    scheme = VSA("MAP-I", 1024)
    second, time = Circular(scheme, 60, label="s"), Level(scheme, 1.7e9, 1.7e9 + 1000, label="t")
    assert torch.equal(second(as_given([1_700_000_123])), second([1_700_000_123 % 60]))
    assert torch.equal(
        Record(scheme, 1, second, label="r")(as_given([[1_700_000_123]])),
        Record(scheme, 1, second, label="r")([[1_700_000_123 % 60]]),
    )
    early, late = time(as_given([1_700_000_300, 1_700_000_700]))
    assert abs(float(scheme.similarity(early, late.unsqueeze(0))) - 0.6) < 4 / 32


def test_functions_take_lists_as_modules_do():
    scheme, values = VSA("MAP-I", 64), [[0.25, 0.5], [0.75, 1.0]]
    assert torch.equal(projection(scheme, values, label=1), Projection(scheme, 2, label=1)(values))
    assert sinusoid(scheme, values, label=1).shape == density(scheme, values, label=1).shape == (2, 64)


# The fast ways


PLAIN = [VSA(name, 1001) for name in ("MAP-I", "MAP-B", "MAP-C", "BSC", "HLB", "HRR", "BSDC-S")]
PLAIN += [VSA("FHRR", 1002), VSA("CGR", 1002)]


@pytest.mark.parametrize("vsa", PLAIN, ids=str)
def test_fillers_that_are_looked_up_are_those_that_are_blended(vsa):
    code = Level(vsa, -1, 3, label="x")
    first, second, places = code.blend.first, code.blend.second, code.blend.places
    values = torch.cat((torch.linspace(-1, 3, 150), 4 * places[:150].float() - 1))  # also where parts change
    slow = torch.where(places < ((values.double() + 1) / 4).unsqueeze(1), second, first)
    assert torch.equal(code(values[:100]), slow[:100]) and code.blend.table is None
    assert torch.equal(code(values), slow) and code.blend.table is not None
    assert torch.equal(code(values.view(3, -1)), slow.view(3, 100, -1))
    other = Level(vsa, -1, 3, label="y")
    assert not torch.equal(other(values), slow)
    other.load_state_dict(code.state_dict())
    assert torch.equal(other(values), slow)  # no table of earlier buffers
    if vsa.row.opposite or not vsa.row.dtype:
        module = Thermometer(vsa, 0, 300, label="x")
        assert torch.equal(thermometer(vsa, 301, label="x"), module(torch.arange(301)))
        assert torch.equal(thermometer(vsa, 11, label="x"), module(torch.arange(11) * 30))


@pytest.mark.parametrize("kind", [Level, Thermometer])
def test_levels_that_are_looked_up_are_those_of_the_rounded_numbers(kind):
    for scheme in (VSA("BSC", 256), VSA("FHRR", 256), VSA("HRR", 63, unitary=True), OSC(12), TPR(40)):
        code, fine = (kind(scheme, -1, 3, levels=levels, label="x") for levels in (9, None))
        values = torch.tensor([[-1.0, -0.76, -0.74, 0.0], [0.26, 1.99, 2.8, 3.0]])
        near = torch.tensor([[-1.0, -1.0, -0.5, 0.0], [0.5, 2.0, 3.0, 3.0]])
        assert torch.equal(code(values), fine(near)) and not torch.equal(code(values), fine(values))
        assert set(code.state_dict()) == set(fine.state_dict())
        other = kind(scheme, -1, 3, levels=9, label="y")
        other.load_state_dict(code.state_dict())
        assert torch.equal(other(values), fine(near))  # no table of earlier buffers
        assert kind(scheme, levels=2, outside="clip", label="x")(7.0).dtype == scheme.facts.filler_dtype
    with pytest.raises(ValueError, match=r"levels must be an integer between 2 and .*, got 1. With levels=None"):
        kind(TPR(40), levels=1, label="x")


def test_large_fillers_have_no_table():
    assert Level(VSA("MAP-I", 2**18), label="x").blend.table_rows == 0
    assert 16 <= Level(VSA("MAP-I", 2**16), label="x").blend.table_rows < 256


@pytest.mark.parametrize(
    "vsa", [VSA("MAP-I", 128), VSA("BSC", 128), VSA("HLB", 128, sigma=0.5), VSA("HRR", 128)], ids=str
)
def test_records_are_bundles_of_what_is_bound(vsa):
    code = Level(vsa, label="x")
    record = Record(vsa, 5, code, label="y")
    values, roles = torch.rand(3, 5, generator=torch.Generator().manual_seed(0)), record.roles.clone()
    slow = torch.stack([vsa.bundle(vsa.bind(code(row), roles)) for row in values])
    for _ in range(2):  # nothing that is kept has changed
        assert_close(record(values), slow)
    assert torch.equal(record.roles, roles)


@pytest.mark.parametrize("name", ["MAP-I", "BSC", "FHRR", "CGR"])
def test_records_of_nothing_are_as_those_of_something(name):
    vsa = VSA(name, 64)
    record = Record(vsa, 3, Level(vsa, label="x"), label="y")
    none, one = record(torch.zeros(0, 3)), record(torch.zeros(1, 3))
    assert none.dtype == one.dtype and none.shape[1:] == one.shape[1:] and len(none) == 0


def test_choosing_by_bits_is_where(generator):
    flags = torch.rand(4, 6, generator=generator) < 0.5
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ):
        x, y = (torch.randn(2, 4, 6, generator=generator) * 50).to(dtype)
        for one, other in ((x, y), (x[0], y), (x, y[0]), (x[0], y[0]), (x.conj(), y)):
            assert torch.equal(chosen(flags, one, other), torch.where(flags, one, other))
        assert torch.equal(chosen(flags[0], x, y), torch.where(flags[0], x, y))
    x = torch.randn(4, 6, generator=generator, requires_grad=True)
    chosen(flags, x, torch.zeros(4, 6)).sum().backward()
    assert torch.equal(x.grad, flags.float())


@pytest.mark.parametrize("name", ["HRR", "FHRR", "MAP-C", "VTB", "MBAT"])
def test_a_generators_own_numbers_are_as_those_of_labels(name, generator):
    """Means and mean squares of 400,000 numbers, each within five standard errors of the other's."""
    vsa = VSA(name, 4096)
    drawn, labeled = (
        torch.view_as_real(x) if x.is_complex() else x for x in (vsa.random(100, generator), vsa.fillers(range(100)))
    )
    for one, other in ((drawn, labeled), (drawn.square(), labeled.square())):
        error = math.sqrt((one.double().var() + other.double().var()) / one.numel())
        assert abs(float(one.double().mean() - other.double().mean())) < 5 * error

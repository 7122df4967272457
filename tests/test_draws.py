import hashlib
import json
import math
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carving import OSC, hashing
from carving.symbols import codec

labels = st.one_of(
    st.text(st.characters()),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(),
    st.sampled_from([(), [], {}]),
)


def kind(label):
    """What makes a label the label it is: its type, and its value up to zeros and NaNs."""
    if isinstance(label, float):
        return (float, "nan") if math.isnan(label) else (float, label + 0.0)
    return type(label), label


def philox(key: bytes, words: int) -> list[int]:
    """Philox4x64-10 in plain integers, from Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"."""
    mask = 2**64 - 1
    found: list[int] = []
    first, second = struct.unpack("<QQ", key)
    counter = 1  # NumPy counts before it draws
    while len(found) < words:
        x = [counter, 0, 0, 0]
        k0, k1 = first, second
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
            x = [(b >> 64) ^ x[1] ^ k0, b & mask, (a >> 64) ^ x[3] ^ k1, a & mask]
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
        found += x
        counter += 1
    return found[:words]


# Golden values: what labels give must never change. A test that fails here is right, the change is wrong.
GOLDEN_BITS = [[8245373211503011563, 11520191848005023732], [3691885465021192965, 13701307371391522786]]
GOLDEN_NORMALS = [1.1116890225, -0.3846585668, 0.8507443685, 0.8455309996]

# Labels -> bytes


def test_canonical_bytes_stay_as_they_are():
    golden = [
        ("dog", b"s3:dog"),
        ("", b"s0:"),
        ("ü", b"s2:\xc3\xbc"),
        (1, b"i1:1"),
        (-12, b"i3:-12"),
        (1.0, b"d8:\x3f\xf0\x00\x00\x00\x00\x00\x00"),
        (True, b"t0:"),
        (False, b"f0:"),
        (None, b"n0:"),
        (b"dog", b"b3:dog"),
        ({}, b"{0:"),
        ([], b"[0:"),
        ((), b"(0:"),
    ]
    for label, expected in golden:
        assert codec.canonical(label) == expected
    assert codec.canonical_path(("sentence 5", 1)) == b"p2:s10:sentence 5i1:1"
    assert codec.canonical_path(("sentence 5", ())) == b"p2:s10:sentence 5(0:"


@given(st.lists(labels), st.lists(labels))
def test_two_paths_have_the_same_bytes_only_if_they_are_the_same(one, other):
    same = list(map(kind, one)) == list(map(kind, other))
    assert (codec.canonical_path(tuple(one)) == codec.canonical_path(tuple(other))) == same


@pytest.mark.parametrize("paths", [[("ab", "c"), ("a", "bc"), ("abc",), ("c", "ab")], [(1,), ("1",), (1.0,), (True,)]])
def test_paths_that_look_alike_differ(paths):
    assert len({codec.canonical_path(path) for path in paths}) == len(paths)


def test_numbers_of_numpy_are_the_labels_that_they_equal():
    assert codec.canonical(np.int64(3)) == codec.canonical(3)
    assert codec.canonical(np.float32(0.5)) == codec.canonical(0.5)
    assert codec.canonical(np.bool_(True)) == codec.canonical(True)
    assert codec.canonical(-0.0) == codec.canonical(0.0)


def test_a_huge_integer_is_refused():
    with pytest.raises(ValueError, match="Use bytes"):
        codec.canonical(10**5_000)


@pytest.mark.parametrize("label", [["a"], {"a": 1}, object(), ("a",), 1j, np.datetime64(1, "ns"), np.longdouble(1)])
def test_what_is_no_label_is_refused_with_the_way_out(label):
    with pytest.raises(TypeError, match=r"a label must be a string.*of type.*str\(\.\.\.\)"):
        codec.canonical(label)


def test_the_refusal_of_a_deep_or_long_thing_stays_short():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    for thing in (deep, ["a"] * 10_000):
        with pytest.raises(TypeError, match="empty dict, list or tuple") as told:
            codec.canonical(thing)
        assert len(str(told.value)) < 400


# Bytes -> bits


def test_bits_are_philox_under_the_hash_of_the_name():
    found = hashing.bits([b"s3:dog", b"s3:cat"], 11, seed=7, purpose="filler")
    for row, name in zip(found, (b"s3:dog", b"s3:cat"), strict=True):
        key = hashlib.sha256(b"carving 1\np2:s6:filleri1:7" + name).digest()[:16]
        assert row.tolist() == philox(key, 11)


@pytest.mark.parametrize("words", [1, 4, 7, hashing.FEW_WORDS, hashing.FEW_WORDS + 1])
def test_many_names_together_draw_what_each_draws_alone(words):
    """Here NumPy's own generator, a new one for each key, is the judge; the plain integers judge it above."""
    names = [b"%d" % i for i in range(hashing.MANY_KEYS)]
    keys = [hashlib.sha256(b"carving 1\np2:s4:rolei1:0" + name).digest()[:16] for name in names]
    expected = [np.random.Philox(key=int.from_bytes(key, "little")).random_raw(words) for key in keys]
    assert np.array_equal(hashing.bits(names, words, seed=0, purpose="role"), expected)
    assert np.array_equal(hashing.bits(names[1:], words, seed=0, purpose="role"), expected[1:])


def test_a_chunk_of_names_draws_what_the_whole_does(monkeypatch):
    names = [b"%d" % i for i in range(hashing.MANY_KEYS)]
    whole = hashing.bits(names, 6, seed=0, purpose="a")
    monkeypatch.setattr(hashing, "MANY_BLOCKS", 100)
    assert np.array_equal(hashing.bits(names, 6, seed=0, purpose="a"), whole)
    assert hashing.bits([], 6, seed=0, purpose="a").shape == (0, 6)


def test_products_have_all_of_their_bits():
    numbers = [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1]
    for factor in hashing.FACTORS:
        high, low = hashing._products(np.array(numbers, dtype=np.uint64), factor)
        assert [(h << 64) + w for h, w in zip(high.tolist(), low.tolist(), strict=True)] == [
            number * int(factor) for number in numbers
        ]


def test_threads_do_not_disturb_each_other():
    usual = sys.getswitchinterval()
    names = [[b"%d %d" % (thread, i) for i in range(100)] for thread in range(8)]

    def drawn(of_thread):
        return [hashing.bits([name], 50, seed=0, purpose="a") for name in of_thread]

    alone = list(map(drawn, names))
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert np.array_equal(list(pool.map(drawn, names)), alone)
    finally:
        sys.setswitchinterval(usual)


def test_bits_stay_as_they_are():
    found = hashing.bits([b"s3:dog", b"i1:1"], 2, seed=0, purpose="filler")
    assert found.tolist() == GOLDEN_BITS


def test_seed_and_purpose_change_the_bits():
    found = [hashing.bits([b"n0:"], 1, seed=s, purpose=p)[0, 0] for s, p in ((0, "a"), (1, "a"), (0, "b"))]
    assert len(set(found)) == 3


def test_batch_and_order_change_nothing():
    names = [b"%d" % i for i in range(20)]
    whole = hashing.bits(names, 5, seed=0, purpose="a")
    single = np.concatenate([hashing.bits([name], 5, seed=0, purpose="a") for name in names])
    backwards = hashing.bits(names[::-1], 5, seed=0, purpose="a")[::-1]
    longer = hashing.bits(names, 9, seed=0, purpose="a")[:, :5]
    for other in (single, backwards, longer):
        assert np.array_equal(whole, other)


def test_another_process_draws_the_same():
    code = "from carving import OSC; print(OSC(5, 2).contexts([('a', 1)]).basis.flatten().tolist())"
    other = {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1", "OMP_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=other, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == OSC(5, 2).contexts([("a", 1)]).basis.flatten().tolist()


# Bits -> numbers


def test_normals_stay_as_they_are():
    found = hashing.normals(hashing.bits([b"s3:dog"], 2, seed=0, purpose="filler"))
    torch.testing.assert_close(found[0], torch.tensor(GOLDEN_NORMALS, dtype=torch.float64), rtol=0, atol=1e-6)


def test_normals_are_box_muller():
    words = hashing.bits([b"a", b"b"], 3, seed=0, purpose="a")
    expected = []
    for word in words.flatten().tolist():
        low, high = word % 2**32, word >> 32
        u, v = (((half + 2**31) % 2**32 + 0.5) / 2**32 for half in (low, high))
        radius = math.sqrt(-2 * math.log(u))
        expected += [radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)]
    torch.testing.assert_close(hashing.normals(words).flatten().tolist(), expected, rtol=1e-12, atol=1e-12)


def test_signs_and_uniforms_and_integers_read_the_bits_as_documented():
    words = np.array([[5, 1 << 63], [0, 2**64 - 1]], dtype=np.uint64)
    assert hashing.signs(words, 3).tolist() == [[-1, 1, -1], [1, 1, 1]]
    assert hashing.signs(words, 128)[0, -1] == -1
    assert hashing.uniforms(words).tolist() == [[0.0, 0.5], [0.0, 1 - 2**-53]]
    assert hashing.integers(words, 10).tolist() == [[0, 5], [0, 9]]
    assert hashing.integers(words, 2**32)[1, 1] == 2**32 - 1


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**32))
def test_integers_are_the_exact_share_of_the_word(words, below):
    found = hashing.integers(np.array(words, dtype=np.uint64), below)
    assert found.tolist() == [word * below >> 64 for word in words]


@pytest.mark.parametrize("below", [0, -1, 2**32 + 1])
def test_integers_refuse_an_empty_or_too_large_range(below):
    with pytest.raises(ValueError, match="between 1 and 2"):
        hashing.integers(np.zeros((1, 1), dtype=np.uint64), below)


def test_numbers_have_their_distributions():
    """Moments within five standard errors of a sample of a million; real defects are far larger."""
    words = hashing.bits([b"%d" % i for i in range(100)], 5_000, seed=0, purpose="a")
    z = hashing.normals(words).flatten()
    n = len(z)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float(z.pow(power).mean()) - mean) < 5 * math.sqrt(variance / n)
    pairs = z.view(-1, 2)
    assert abs(float(pairs.prod(1).mean())) < 5 / math.sqrt(n / 2)
    u = hashing.uniforms(words).flatten()
    assert abs(float(u.mean()) - 0.5) < 5 * math.sqrt(1 / 12 / len(u))
    s = hashing.signs(words, 64 * 5_000).double().flatten()
    assert abs(float(s.mean())) < 5 / math.sqrt(len(s))
    counts = torch.bincount(hashing.integers(words, 7).flatten())
    expected = len(u) / 7
    assert float(((counts - expected) ** 2 / expected).sum()) < 40  # chi-squared with 6 degrees, p < 1e-6


def test_a_generator_gives_bits_too(generator):
    first = hashing.bits_from(generator, 3, 1_000)
    again = hashing.bits_from(torch.Generator().manual_seed(0), 3, 1_000)
    assert np.array_equal(first, again)
    assert abs(float(hashing.signs(first, 64_000).double().mean())) < 5 / math.sqrt(192_000)

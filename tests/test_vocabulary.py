"""Vocabularies: distinct labels in order, which grow without changing for those who hold shorter ones."""

import copy
import pickle
import threading
import time
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carving import OSC, Memory, Vocabulary
from carving.errors import BadValue
from carving.symbols import codec, string_table
from carving.symbols.codec import canonical, label_ends, parse_label, split_labels


def test_a_vocabulary_keeps_order_and_tells_alike_labels_apart():
    words = Vocabulary(["dog", 1, "1", 1.0, True, None, b"dog"])
    assert len(words) == 7
    assert [words.find(label) for label in words] == list(range(7))
    assert words[3] == 1.0
    assert "cat" not in words and False not in words and 1.0 in words


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["a", "b", "a"], ValueError, "'a' at positions 0 and 2. Remove"),
        ([0.0, -0.0], ValueError, "must differ"),
        ("dog", TypeError, "must be a list"),
        ({"dog", "cat"}, TypeError, "must have an order, got a set"),
        ([["a"]], TypeError, "a label must be"),
    ],
)
def test_bad_vocabularies_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        Vocabulary(labels)


def test_an_unknown_value_has_no_position():
    assert Vocabulary(["dog"]).find("cat") is None


def test_a_vocabulary_grows_at_its_end():
    words = Vocabulary()
    assert len(words) == 0 and words.find("dog") is None
    assert [words.add(label) for label in ("dog", "cat", "dog", 1, True)] == [0, 1, 0, 2, 3]
    assert list(words) == ["dog", "cat", 1, True] and words.find("cat") == 1


def test_longer_vocabularies_share_their_labels_and_change_nothing_for_shorter_ones():
    words = Vocabulary(["dog", "cat"])
    longer, rows = words.extended({b"s3:cat": "cat", b"s4:bird": "bird"})
    assert rows.tolist() == [1, 2] and longer._shared is words._shared
    longest, _ = longer.extended({b"i1:1": 1, b"t0:": True})
    assert longest._shared is words._shared and list(longest) == ["dog", "cat", "bird", 1, True]
    assert list(words) == ["dog", "cat"] and list(longer) == ["dog", "cat", "bird"]
    assert words.find("bird") is None and "bird" not in words and longer.find(True) is None
    assert words.names() == [b"s3:dog", b"s3:cat"] and list(longer) == ["dog", "cat", "bird"]
    with pytest.raises(IndexError):
        words[2]
    assert longer[-1] == "bird" and words[-1] == "cat"


def test_a_vocabulary_that_others_outgrew_goes_its_own_way():
    words = Vocabulary(["dog"])
    longer, _ = words.extended({b"s3:cat": "cat"})
    other, rows = words.extended({b"s4:bird": "bird", b"s3:cat": "cat"})
    assert rows.tolist() == [1, 2] and list(other) == ["dog", "bird", "cat"] and list(longer) == ["dog", "cat"]
    assert words.add("bird") == 1 and words.add("fish") == 2
    assert list(words) == ["dog", "bird", "fish"] and list(other) == ["dog", "bird", "cat"]
    assert words.find("cat") is None and other.names() == [b"s3:dog", b"s4:bird", b"s3:cat"]


def test_copies_of_a_vocabulary_are_their_own():
    words = Vocabulary(["dog", 1, {}])
    for copied in (copy.copy(words), copy.deepcopy(words), pickle.loads(pickle.dumps(words))):
        copied.add("cat")
        assert list(copied) == ["dog", 1, {}, "cat"] and len(words) == 3


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=40))
def test_any_tree_of_vocabularies_is_one_of_lists(steps):
    made = [(Vocabulary(), [])]
    for parent, label in steps:
        words, plain = made[parent % len(made)]
        longer, (row,) = words.extended({canonical(label): label})
        expected = plain if label in plain else [*plain, label]
        assert row == expected.index(label)
        made.append((longer, expected))
    for words, plain in made:
        assert list(words) == plain and len(words) == len(plain)
        assert [words.find(label) for label in range(31)] == [plain.index(x) if x in plain else None for x in range(31)]


def test_threads_that_extend_one_vocabulary_get_what_they_added():
    words, found = Vocabulary(["dog"]), []

    def extend(who):
        own = words
        for number in range(200):
            own, _ = own.extended({canonical(label := f"{who} {number}"): label})
        found.append((who, own))

    threads = [threading.Thread(target=extend, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and list(words) == ["dog"]
    for who, own in found:
        assert list(own) == ["dog", *(f"{who} {number}" for number in range(200))]
        assert own.rows_of([canonical(label) for label in own]) == list(range(201))


LABELS = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(), st.binary(max_size=20), st.booleans(), st.none(),
    st.sampled_from([{}, [], "s3:dog", "a:b 12:x", "i7:", b"s1:", "é:4:", "\ud800", 10**40, -1, 0, ""]),
)  # fmt: skip


def ends_by_the_scalar_reader(data):
    """The boundaries of the labels that fill the data, read one after the other; None if there are none."""
    try:
        names = list(split_labels(data))
        for name in names:
            parse_label(name)
    except BadValue:
        return None
    return [0, *accumulate(map(len, names))]


def ends_by_the_vectorized_reader(data):
    try:
        return label_ends(np.frombuffer(data, dtype=np.uint8)).tolist()
    except BadValue:
        return None


def values_of(data):
    """The values that a vocabulary of these bytes has, by the scalar reader; None if it is none."""
    ends = ends_by_the_scalar_reader(data)
    if ends is None:
        return None
    names = [data[start:end] for start, end in pairwise(ends)]
    return None if len(set(names)) < len(names) or b"(0:" in names else list(map(parse_label, names))


@given(st.lists(LABELS, max_size=30), st.integers(8, 60))
def test_canonical_bytes_give_back_every_label_however_few_are_looked_at_together(labels, window):
    named = {canonical(label): label for label in labels}
    data = b"".join(named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "WINDOW", window)
        words = Vocabulary.of_bytes(np.frombuffer(data, dtype=np.uint8))
    assert repr(list(words)) == repr(values_of(data))
    assert words.names() == list(named) and words.packed().tobytes() == data
    assert words.rows_of(named) == list(range(len(named)))


@given(st.lists(LABELS, min_size=1, max_size=6), st.data(), st.sampled_from([8, 16, 2**21]))
@settings(max_examples=500)
def test_both_readers_find_the_same_labels_and_refuse_the_same_bytes(labels, data, window):
    damaged = bytearray(b"".join(canonical(label) for label in labels))
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(
            st.sampled_from(b"0123456789:sidbtfn{[(-\xff\xc3ap")
        )
    damaged = bytes(damaged[data.draw(st.integers(0, 2)) :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "WINDOW", window)
        assert ends_by_the_vectorized_reader(damaged) == ends_by_the_scalar_reader(damaged)
    try:
        found = list(Vocabulary.of_bytes(np.frombuffer(damaged, dtype=np.uint8)))
    except BadValue:
        found = None
    assert repr(found) == repr(values_of(damaged))


@pytest.mark.parametrize(
    "data",
    [b"", b"s", b"s3", b"s3:", b"s3:do", b"s03:dog", b"s3:dogx", b"z0:", b"t1:x", b"d7:1234567", b"i2:07", b"i1:-",
     b"i2:-0", b"i0:", b"s-1:a", b"s+1:a", b"s1 :a", b"s1_0:abcdefghij", b"s9999999999999999999999:a", b"p1:s1:a",
     b"s1:\xc3s1:\xa9", b"b1:\xc3", b"s3:\xed\xa0\x80", b"(0:", b"d8:\x80\0\0\0\0\0\0\0", b"i3100:" + b"1" * 3100],
)  # fmt: skip
def test_both_readers_agree_at_the_edges(data):
    for whole in (data, b"s3:dog" + data, data + b"s3:dog", b"s8:s3:dogs9" + data):
        assert ends_by_the_vectorized_reader(whole) == ends_by_the_scalar_reader(whole)


def test_labels_whose_contents_look_like_labels_are_read_in_linear_time():
    def seconds(count):
        data = np.frombuffer(b"".join(canonical(f"s3:dog {i} i1:7") for i in range(count)), dtype=np.uint8)
        start = time.process_time()
        assert len(label_ends(data)) == count + 1
        return time.process_time() - start

    few, many = (min(seconds(count) for _ in range(3)) for count in (20_000, 160_000))
    assert many < 24 * few  # 8 times as many; 64 if it were quadratic


@given(st.lists(st.binary(max_size=20), max_size=60))
def test_a_string_has_one_hash_alone_and_among_many(names):
    hashes = string_table.hashes_of(*string_table.laid_out(names)).tolist()
    assert hashes == [string_table.hash_of(name) for name in names]


@pytest.mark.parametrize("size", [3, 200])  # looked up one by one, and together
def test_strings_of_one_hash_are_told_apart(monkeypatch, size):
    monkeypatch.setattr(string_table, "hash_of", lambda name: 2**40 + 7)
    monkeypatch.setattr(
        string_table, "hashes_of", lambda data, ends: np.full(len(ends) - 1, 2**40 + 7, dtype=np.uint64)
    )
    words, other = Vocabulary(range(size)), list(range(size, size + 5))
    assert words.rows_of([canonical(label) for label in [*range(size), *other]]) == [*range(size), *([-1] * 5)]
    assert [words.add(label) for label in other] == other and words.find(size + 2) == size + 2


def test_two_vocabularies_are_joined_in_order_and_neither_changes():
    one, other = Vocabulary(["dog", 1, "cat"]), Vocabulary([True, "cat", "cow", 1, "ox"])
    both, rows = one.extended(other)
    assert list(both) == ["dog", 1, "cat", True, "cow", "ox"] and rows.tolist() == [3, 2, 4, 1, 5]
    assert list(one) == ["dog", 1, "cat"] and len(other) == 5
    same, rows = both.extended(other)
    assert same is both and rows.tolist() == [3, 2, 4, 1, 5]
    taken, rows = Vocabulary().extended(other)
    assert taken.add("new") == 5 and "new" not in other and rows.tolist() == list(range(5))


def test_a_label_takes_its_bytes_and_thirty_more():
    words = Vocabulary(f"word {i}" for i in range(49_000))
    assert words.nbytes < sum(map(len, words.names())) * 1.25 + (8 * 1.25 + 8 * 8 / 3) * len(words) + 64
    assert list(words.first(3)) == ["word 0", "word 1", "word 2"] and words[48_999] == "word 48999"


def test_long_values_are_stored_loaded_and_compared_in_linear_time(tmp_path):
    """Word by word, each took a quarter of a minute."""
    long = ["x" * 1_000_000 + end for end in "ab"]
    memory, start = Memory(OSC(20, 2)), time.perf_counter()
    memory.store({"a": long[0], "b": long[1]})
    memory.store({f"key {i}": long[0] for i in range(30)})
    memory.save(tmp_path / "file")
    loaded = Memory.load(tmp_path / "file")
    assert len(loaded.vocabulary) == 2 and loaded.vocabulary.find(long[1]) == 1
    assert time.perf_counter() - start < 5


def test_texts_of_one_hash_cannot_be_made_beforehand():
    """Changed bits at the top of a word, and where they go in the next word, had cancelled each other."""
    words = [bytes([i]) * 8 for i in range(100)]
    changed = [(int.from_bytes(word, "little") ^ 2**63, 0x8000000080000000) for word in words]
    others = [one.to_bytes(8, "little") + two.to_bytes(8, "little") for one, two in changed]
    pairs = zip(words, others, strict=True)
    assert not any(string_table.hash_of(word + bytes(8)) == string_table.hash_of(other) for word, other in pairs)


def colliding(count):
    """Values (bytes labels) of one hash under the process's present secret."""
    inverse, found = pow(string_table.WORD, -1, 2**64), []
    for number in range(count):
        start = b"b20:" + number.to_bytes(4, "little") + number.to_bytes(8, "big")
        value = string_table.START ^ 24
        for at in (0, 8):
            word = int.from_bytes(start[at : at + 8], "little") * string_table.WORD % 2**64
            value = (value ^ word ^ word >> 32) * string_table.FACTOR % 2**64
            value ^= value >> 32
        mixed = value ^ 7  # so that the last word makes all alike
        found.append(start + ((mixed ^ mixed >> 32) * inverse % 2**64).to_bytes(8, "little"))
    return found


def test_values_of_one_hash_under_another_secret_are_as_fast_as_any(monkeypatch):
    for name, value in {"START": 11, "WORD": 2**62 + 13, "FACTOR": 2**61 + 17, "LAST": 2**60 + 19}.items():
        monkeypatch.setattr(string_table, name, value)
    names = colliding(6_000)
    assert len({string_table.hash_of(name) for name in names}) == 1

    def seconds():
        start = time.process_time()
        words = Vocabulary.of_bytes(np.frombuffer(b"".join(names), dtype=np.uint8))
        rows = words.rows_of(names)
        return time.process_time() - start, rows, list(words)

    known, *results = seconds()
    monkeypatch.undo()  # the process's own secret, which nobody knows
    own, *same = seconds()
    assert len({string_table.hash_of(name) for name in names}) == len(names)
    assert results == same and results[0] == list(range(len(names)))
    assert own < known / 5

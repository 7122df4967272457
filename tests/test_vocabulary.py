"""Vocabularies: distinct labels in order, which grow without changing for those who hold shorter ones."""

import copy
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carving import Vocabulary
from carving.symbols import canonical


def test_a_vocabulary_keeps_order_and_tells_alike_labels_apart():
    words = Vocabulary(["dog", 1, "1", 1.0, True, None, b"dog"])
    assert len(words) == 7
    assert [words.index(label) for label in words] == list(range(7))
    assert words[3] == 1.0
    assert "cat" not in words and False not in words and 1.0 in words


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["a", "b", "a"], ValueError, "'a' at places 0 and 2; leave out"),
        ([0.0, -0.0], ValueError, "must differ"),
        ("dog", TypeError, "must be a list"),
        ({"dog", "cat"}, TypeError, "must have an order, got a set"),
        ([["a"]], TypeError, "a label must be"),
    ],
)
def test_bad_vocabularies_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        Vocabulary(labels)


def test_an_unknown_label_is_told():
    with pytest.raises(KeyError, match="'cat' is not among the 1 labels"):
        Vocabulary(["dog"]).index("cat")


def test_a_vocabulary_grows_at_its_end():
    words = Vocabulary()
    assert len(words) == 0 and words.find("dog") is None
    assert [words.add(label) for label in ("dog", "cat", "dog", 1, True)] == [0, 1, 0, 2, 3]
    assert list(words) == ["dog", "cat", 1, True] and words.find("cat") == 1


def test_longer_vocabularies_share_their_labels_and_change_nothing_for_shorter_ones():
    words = Vocabulary(["dog", "cat"])
    longer, rows = words.extended({b"s3:cat": "cat", b"s4:bird": "bird"})
    assert rows == [1, 2] and longer._shared is words._shared
    longest, _ = longer.extended({b"i1:1": 1, b"t0:": True})
    assert longest._shared is words._shared and list(longest) == ["dog", "cat", "bird", 1, True]
    assert list(words) == ["dog", "cat"] and list(longer) == ["dog", "cat", "bird"]
    assert words.find("bird") is None and "bird" not in words and longer.find(True) is None
    assert words.rows == {b"s3:dog": 0, b"s3:cat": 1} and longer.since(1) == ["cat", "bird"]
    with pytest.raises(IndexError):
        words[2]
    assert longer[-1] == "bird" and words[-1] == "cat"


def test_a_vocabulary_that_others_outgrew_goes_its_own_way():
    words = Vocabulary(["dog"])
    longer, _ = words.extended({b"s3:cat": "cat"})
    other, rows = words.extended({b"s4:bird": "bird", b"s3:cat": "cat"})
    assert rows == [1, 2] and list(other) == ["dog", "bird", "cat"] and list(longer) == ["dog", "cat"]
    assert words.add("bird") == 1 and words.add("fish") == 2
    assert list(words) == ["dog", "bird", "fish"] and list(other) == ["dog", "bird", "cat"]
    assert words.find("cat") is None and other.named == {b"s3:dog": "dog", b"s4:bird": "bird", b"s3:cat": "cat"}


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

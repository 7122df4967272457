import pytest

from carving import Vocabulary


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

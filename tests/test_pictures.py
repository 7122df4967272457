"""What notebooks and matplotlib show of memories, answers and plans."""

import pytest

from carving import OSC, Answer, Memory, make, plan
from carving.explore.scores import score_all
from carving.explore.statistics import load_curve

pytest.importorskip("matplotlib")
NASTY = "<script>alert(1)</script> $x$"


@pytest.fixture(scope="module")
def memory():
    memory = Memory(make("HLB", d=4096))
    memory.store([(("key", i), f"value {i}") for i in range(30)] + [(("nasty",), NASTY)])
    return memory


def drawn(figure):
    """The figure, drawn for certain."""
    figure.draw_without_rendering()  # the canvas of a figure without a window draws nothing
    return figure


def test_a_memory_is_a_picture_of_cells_spread_and_fullness(memory):
    cells, spread, full = drawn(memory.plot()).axes
    assert cells.get_images()[0].get_array().shape == (64, 64)
    assert sum(patch.get_height() for patch in spread.patches) == 4096
    here = load_curve(memory)
    assert tuple(full.lines[-1].get_xydata()[0]) == (here.load, here.predicted)
    other = Memory(make("BSC", d=64))
    other.store({"a": 1})
    assert len(drawn(other.plot()).axes) == 2  # of which nothing is predicted
    assert len(drawn(Memory(OSC(d=12, p=3)).plot()).axes) == 2  # nor of an empty one
    held = Memory(OSC(d=30, p=2, compact=True))
    held.store({"a": 1, "b": 2})
    drawn(held.quantize(bits=2).plot("a"))


def test_a_question_is_a_picture_of_all_scores(memory):
    axes = drawn(memory.plot("key", 7)).axes[0]
    assert sum(patch.get_height() for patch in axes.patches[:80]) == 31
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "value 7" in names
    marks = {round(float(line.get_xdata()[0]), 6) for line in axes.lines}
    seen = score_all(memory, ("key", 7))
    assert marks == {round(seen.threshold, 6), round(float(seen.scores.max()), 6)}
    drawn(memory.plot("nasty"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("dog", 1.02, 0.99), "dog, with a probability of 0.99"),
        (Answer(None, 0.1, 0.9, found=False), "nothing is stored here, with a probability of 0.9"),
        (Answer(NASTY, 3.0, float("nan")), NASTY.replace("$", r"\$")),
        (Answer("two\nlines", 1.0, 0.9), "two lines, with a probability of 0.9"),
    ],
)
def test_an_answer_is_a_picture_of_its_score(answer, words):
    axes = drawn(answer.plot()).axes[0]
    assert axes.get_title(loc="left") == words
    assert answer.score in [line.get_xdata()[0] for line in axes.lines[1:]]


def test_labels_that_are_long_stay_in_their_picture():
    held = Memory(OSC(d=30, p=2))
    held.store({"x" * 300: "y" * 300, "b": 2})
    for figure in (held.recall("x" * 300).plot(), held.plot("x" * 300)):
        title = drawn(figure).axes[0].title, figure.axes[0]._left_title
        assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in title)


def test_scores_of_schemes_that_settle_are_not_said_to_be_1_for_what_was_stored():
    held = Memory(make("MAP-B", d=512))
    held.store({f"key {i}": f"value {i}" for i in range(20)})
    assert "cosine" in drawn(held.plot("key 3")).axes[0].get_xlabel()
    said = [text.get_text() for text in drawn(held.recall("key 3").plot()).axes[0].texts]
    assert said == ["orthogonal", "identical"]


def test_notebooks_show_text_and_no_markup(memory):
    assert "31 pairs of 31 different values" in memory._repr_html_()
    assert "a row of 4,096 cells" in memory._repr_html_()
    assert "&lt;script&gt;" in Answer(NASTY, 1.0, 0.5)._repr_html_()
    assert "<script>" not in memory.recall("nasty")._repr_html_()
    assert "nothing is stored there" in memory.recall("nowhere")._repr_html_()
    best = plan(1000, 500, scheme="HLB")
    assert "30,714, and 15,357,000 numbers of its codebook" in best._repr_html_()
    quantized = Memory(OSC(d=30, p=2))
    quantized.store({"a": 1, "b": 2})
    assert "2 bits per cell" in quantized.quantize(bits=2)._repr_html_()

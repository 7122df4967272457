"""The explorer without a browser: what the library counts for it, what its JSON says, and who is let in."""

import asyncio
import errno
import itertools
import json
import math
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import NormalDist
from threading import Event, Thread, Timer
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from carving import OSC, SCHEMES, Memory, make, plan
from carving.cli import app
from carving.errors import BadValue, Overfull
from carving.explore import MemoryDocument, planning
from carving.explore.decoding import JointDecoding
from carving.explore.params import Params
from carving.explore.routes import ROUTES
from carving.explore.scores import score_all
from carving.explore.server import MAX_BODY_BYTES, PAGE, Server
from carving.explore.serving import listen, uvicorn_server
from carving.explore.sessions import MAX_SESSIONS, PathIndex, Session, SessionStore
from carving.explore.statistics import cell_histogram, cell_slice, least_bytes, load_curve
from carving.formats.typed import line_readings, path_line
from carving.memory.opened import open_memory
from carving.storage.atomic import NotFlushed

FACTS = [((f"key {i}", "of"), f"value {i % 40}") for i in range(120)]
HOST = "127.0.0.1:8000"
OTHER_SITE = dict(sec_fetch_site="cross-site", sec_fetch_mode="navigate")
EXPLORE = Path(__file__).parents[1] / "docs" / "explore.md"


def filled(scheme=None, facts=FACTS, **how):
    memory = Memory(scheme or OSC(d=60, p=2, compact=True), **how)
    memory.store(facts)
    return memory


@pytest.fixture(scope="module")
def memory():
    return filled(keep_paths=True)


class Page:
    """A page: its copy, and the routes that it calls."""

    def __init__(self, memory, pairs=(), file=None):
        self.sessions = SessionStore(MemoryDocument(memory, "some facts", list(pairs), file))
        self.session = self.sessions.open()

    def __call__(self, method, name, **values):
        reply = ROUTES[method, name](self.sessions, Params(dict(session=self.session) | values))
        reply = reply if isinstance(reply, dict) else list(reply)
        json.dumps(reply, allow_nan=False)
        return reply


@pytest.fixture
def page(memory):
    return Page(memory, FACTS)


# What the library counts


@pytest.mark.parametrize("name", ["OSC", "HLB", "FHRR", "HRR", "MAP-I", "TPR"])
@pytest.mark.parametrize("prior_empty", [0.5, 0.9])
def test_scores_tell_the_probability_and_the_threshold_of_recall(name, prior_empty):
    sizes = {"OSC": dict(d=40), "TPR": dict(d=40, whole_path=True)}
    memory = filled(make(name, **sizes.get(name, dict(d=1024))), FACTS[:60])
    for path in [path for path, _ in FACTS[:12]] + [(f"nowhere {i}", "of") for i in range(12)]:
        answer, seen = memory.recall(*path, prior_empty=prior_empty), score_all(memory, path, prior_empty)
        best = int(seen.probabilities.argmax())
        assert float(seen.probabilities.sum()) + seen.empty == pytest.approx(1, abs=1e-6)
        assert (float(seen.scores[best]) > seen.threshold) is answer.found
        expected = float(seen.probabilities[best]) if answer.found else seen.empty
        assert answer.probability == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert seen.best(3)[0] == best


def test_the_threshold_is_where_the_odds_of_one_pair_are_even(memory):
    """The paper-and-pencil form: s = 1/2 + variance (log absence - log prior), for pairs that were stored once."""
    held = filled()
    seen = score_all(held, ("key 5", "of"), 0.5)
    odds = held._reader.odds(0.5, range(len(held.vocabulary)))
    row = int(seen.probabilities.argmax())
    variance, prior = float(odds.variance[row]), float(odds.log_prior[row])
    assert seen.threshold == pytest.approx(0.5 + variance * (math.log(0.5) - prior), rel=1e-5)


def test_the_noise_is_that_of_values_which_are_not_there():
    held = filled(OSC(d=50, p=2), [((f"key {i}",), f"value {i}") for i in range(300)])
    elsewhere = torch.cat([score_all(held, (f"nowhere {i}",)).scores for i in range(20)])
    told = sum(score_all(held, (f"nowhere {i}",)).noise for i in range(5)) / 5
    assert float(elsewhere.std()) == pytest.approx(told, rel=0.1)  # of 6,000 scores the deviation is known to 1 %


def test_settling_schemes_have_scores_without_odds():
    seen = score_all(filled(make("MAP-B", d=512), FACTS[:10]), ("key 3", "of"))
    assert (seen.probabilities, seen.empty, seen.threshold, seen.is_cosine) == (None, None, None, True)
    assert int(seen.scores.argmax()) == 3
    assert not score_all(filled(), ("key 3", "of")).is_cosine


def test_consolidated_and_quantized_memories_have_scores_too():
    held = filled(OSC(d=40, p=2, compact=True), FACTS[:60])
    quantized = held.quantize(bits=4)
    assert score_all(quantized, ("key 3", "of")).threshold is not None
    held.consolidate(FACTS[:60])
    assert int(score_all(held, ("key 3", "of")).scores.argmax()) == 3
    assert load_curve(held).predicted > 0.99


def test_a_slice_is_what_lies_in_the_tensor():
    held = filled(OSC(d=12, p=4), FACTS[:5])
    seen = cell_slice(held, (3, 7))
    assert torch.allclose(seen.numbers * seen.deviation, held.tensor[:, :, 3, 7])
    wide = cell_slice(filled(OSC(d=60, p=2)), side=16)
    assert (tuple(wide.numbers.shape), wide.step) == ((15, 15), (4, 4))
    vector = filled(make("HLB", d=1000), FACTS[:5])
    row = cell_slice(vector)
    assert torch.allclose(row.numbers.flatten()[:1000] * row.deviation, vector.tensor)
    assert float(row.numbers.flatten()[1000:].abs().sum()) == 0
    with pytest.raises(BadValue, match="2 indices"):
        cell_slice(held, (3,))
    with pytest.raises(BadValue, match="axis 3"):
        cell_slice(held, (12, 0))


def test_every_scheme_can_be_looked_at():
    for name in SCHEMES:
        size = dict(d=24) if name in ("OSC", "CliffordOSC") else dict(d=16) if name == "TPR" else dict(d=256)
        held = Memory(make(name, **size))
        held.store([((f"key {i}",), i) for i in range(3)])
        assert cell_slice(held, (0,) * max(0, held.tensor.dim() - 2)).numbers.isfinite().all()
        assert sum(cell_histogram(held).counts) == cell_histogram(held).sampled


def test_numbers_of_a_memory_are_counted_beside_the_normal_curve(memory):
    seen, normal = cell_histogram(memory, bins=20), NormalDist()
    flat = (memory.tensor / memory.tensor.square().mean().sqrt()).flatten().tolist()
    slow = Counter(min(19, max(0, math.floor((each + 4) / 0.4))) for each in flat)
    assert list(seen.counts) == [slow[i] for i in range(20)]
    assert seen.normal[7] == pytest.approx(len(flat) * (normal.cdf(-0.8) - normal.cdf(-1.2)))
    assert sum(seen.normal) == pytest.approx(len(flat))


def test_of_few_different_numbers_it_is_said_how_many(memory):
    assert cell_histogram(memory).distinct is None
    assert cell_histogram(filled().quantize(bits=2)).distinct == 4
    assert cell_histogram(Memory(OSC(d=20))).distinct == 1
    held = filled(make("MAP-I", d=2048), FACTS[:20])
    assert cell_histogram(held).distinct == len(set(held.tensor.tolist())) > 10


def test_the_load_curve_agrees_with_what_is_predicted():
    memory = filled(make("HLB", d=8192))
    seen = load_curve(memory)
    assert seen.predicted == memory.predicted_accuracy()
    assert (seen.load, seen.capacity - seen.load) == (120, seen.spare)
    assert memory.predicted_accuracy(seen.spare) == pytest.approx(0.99, abs=0.01)
    assert list(seen.accuracy) == sorted(seen.accuracy, reverse=True)
    assert load_curve(Memory(OSC(d=40))) is None
    assert load_curve(filled(make("BSC", d=256), FACTS[:5])) is None


def test_an_overfull_memory_is_seen_on_the_curve():
    with pytest.warns(Overfull):
        seen = load_curve(filled(make("HLB", d=256)))
    assert (seen.spare, seen.excess) == (0, 120 - seen.capacity)
    assert seen.pairs[-1] >= 1.2 * seen.load


def test_the_least_bytes_are_the_entropy():
    assert least_bytes(filled(facts=[((i,), i % 4) for i in range(32)])) == pytest.approx(32 * 2 / 8)
    assert least_bytes(filled(facts=[((i,), "same") for i in range(8)])) == 0
    assert least_bytes(Memory(OSC(d=20))) == 0


def test_rounds_tell_what_verify_tells_in_the_end():
    facts = [*FACTS, (("key 3", "of"), "another"), (("key 4", "of"), "value 4")]  # two paths hold two
    held = filled(OSC(d=42, p=2, compact=True), facts)
    decoding = JointDecoding(held, facts)
    rounds = list(decoding)
    assert rounds[0].noise == 1
    assert rounds[-1].correct == held.verify(facts, joint=True).accuracy > rounds[0].correct
    assert decoding.answers() == held.decode([path for path, _ in facts], prior_empty=0.0)
    unknown = list(JointDecoding(held, [(("key 3", "of"), "never"), (("key 7", "of"), "value 7")]))
    assert unknown[-1].correct == 0.5


# What is typed


@pytest.mark.parametrize(
    "path", [("dog", "says"), ("a / b", 3), ("a/b",), (1, "1"), (True, None, 1.5), ("", "x"), ("[1]",), ("-x", " y ")]
)
def test_a_line_names_the_path_that_it_was_made_of(path):
    line = path_line(path)
    assert (line_readings(line)[0], list(map(type, line_readings(line)[0]))) == (path, list(map(type, path)))


def test_what_no_line_can_say_is_not_offered():
    assert path_line((b"bytes",)) is None
    assert path_line(("line\nbreak",)) is None


def test_paths_are_found_by_what_is_in_them():
    known = PathIndex.of([("a", "cat"), ("cat", "a"), ("dog",), ("cat", "a"), (1,), (True,)])
    assert len(known) == 5
    assert known.find("CAT", 9) == [("cat", "a"), ("a", "cat")]
    assert known.find("", 2) == [("a", "cat"), ("cat", "a")]


# The views


def test_overview_says_what_the_memory_is(page, memory):
    seen = page("GET", "overview")
    assert (seen["pairs"], seen["values"], seen["cells"], seen["bytes"]) == (120, 40, 3600, 14400)
    assert seen["most_stored"][0]["times"] == 3
    assert seen["description"].startswith("OSC (Orthogonal Subspace Carving): a square of 60 x 60")
    assert (seen["cells_per_pair"], seen["relative_to_least"]) == (30, pytest.approx(14400 / least_bytes(memory)))
    cells = page("GET", "cells")
    flat = torch.tensor(cells["rows"]).float() * 3.5 / 127 * cells["deviation"]
    near = memory.tensor.abs() < 3.4 * cells["deviation"]
    assert torch.allclose(flat[near], memory.tensor[near], atol=cells["deviation"] * 3.5 / 127)
    assert page("GET", "load")["load"]["load"] == 120
    assert sum(page("GET", "histogram")["counts"]) == 3600
    assert page("GET", "about")["known_pairs"] == 120


def test_ask_answers_as_the_library_does(page, memory):
    path = ("key 7", "of")
    seen = page("GET", "ask", path="key 7 / of")
    answer = memory.recall(*path)
    assert seen["answers"][0]["value"]["text"] == answer.value == "value 7"
    assert seen["answers"][0]["probability"] == answer.probability
    assert len(seen["scores"]["scores"]) == seen["scores"]["values"] == 40
    top = page("GET", "ask", path="key 7 / of", kind="top", top="3")["answers"]
    assert [each["value"]["text"] for each in top] == [each.value for each in memory.recall(*path, top=3)]
    assert [each["value"]["text"] for each in page("GET", "ask", path="key 7/of", kind="set")["answers"]] == ["value 7"]
    assert page("GET", "ask", path="key 7 / of", kind="value", value="value 7")["answers"][0]["found"]
    assert not page("GET", "ask", path="key 7 / of", kind="value", value="value 8")["answers"][0]["found"]
    nowhere = page("GET", "ask", path="nowhere / at all")
    assert nowhere["best"] == nowhere["answers"][0]
    assert nowhere["best"]["value"] is None
    assert not nowhere["best"]["found"]


def test_numbers_are_tried_as_such_and_as_text():
    page = Page(filled(facts=[(("age", "1984"), 7), (("age", 3), "3")]))
    assert page("GET", "ask", path="age / 1984")["best"]["value"] == dict(text="7", typed="7")
    assert page("GET", "ask", path="age / 3")["best"]["value"] == dict(text="3", typed='"3"')
    assert page("GET", "ask", path="age / 3", kind="value", value="3")["answers"][0]["found"]


def test_of_very_many_values_the_best_are_told_and_some_of_the_rest():
    page = Page(filled(OSC(d=100, p=2, compact=True), [((i,), f"value {i}") for i in range(4000)]))
    seen = page("GET", "ask", path="17")["scores"]
    assert seen["values"] == 4000
    assert len(seen["scores"]) <= 1512
    assert len(seen["best"]) == 12
    assert seen["scores"] == sorted(seen["scores"], reverse=True)


def test_paths_and_values_are_offered(page):
    assert page("GET", "paths", text="KEY 11")["paths"][0] == dict(text="key 11 / of", typed="key 11 / of")
    assert page("GET", "values", text="39")["values"] == [dict(text="value 39", typed="value 39")]
    assert Page(filled())("GET", "paths", text="")["known"] == 0
    assert Page(filled(keep_paths=True))("GET", "paths", text="")["known"] == 120


def test_changes_are_made_in_the_copy_alone(memory):
    page = Page(memory, FACTS)
    other = page.sessions.open()
    done = page("POST", "store", path="new / pair", value="woof")
    assert (done["pairs"], done["count"], done["path"]["text"]) == (121, 1, "new / pair")
    assert page("GET", "ask", path="new / pair")["best"]["value"]["text"] == "woof"
    assert page("GET", "overview")["changes"] == 1
    assert page("GET", "paths", text="new")["paths"][0]["text"] == "new / pair"
    assert memory.pairs == 120
    assert page.sessions.get(other).memory.pairs == 120
    assert page("POST", "forget", path="key 3 / of", value="never there")["not_found"]
    assert not page("POST", "forget", path="new / pair", value="woof")["not_found"]
    assert page("GET", "changes")["pairs"] == 120
    assert page("POST", "reset")["count"] == 0


def test_a_path_that_is_stored_while_paths_are_listed_is_found(memory):
    began, go_on = Event(), Event()

    class Slow(list):
        def __iter__(self):
            if not began.is_set():
                began.set()
                go_on.wait(30)
            return super().__iter__()

    page = Page(memory)
    page.sessions.get(page.session).pairs = Slow(FACTS)
    listing = Thread(target=page, args=("GET", "paths"))
    storing = Thread(target=page, args=("POST", "store"), kwargs=dict(path="new / pair", value="woof"))
    listing.start()
    assert began.wait(30)
    storing.start()
    storing.join(0.5)  # it may have to wait until the paths are listed
    go_on.set()
    for thread in (listing, storing):
        thread.join(30)
    assert [path["text"] for path in page("GET", "paths", text="new")["paths"]] == ["new / pair"]


def test_a_slash_parts_roles_when_something_is_stored(page):
    assert page("POST", "store", path="a/b", value="1")["path"]["text"] == "a / b"
    assert page("GET", "ask", path="a / b")["best"]["value"]["typed"] == "1"


def test_a_memory_that_gets_too_full_says_so():
    page = Page(filled(make("HLB", d=128), FACTS[:5]))
    told = []
    for i in range(20):
        told += page("POST", "store", path=f"more {i}", value=f"value {i}")["warnings"]
    assert "over capacity" in told[0]


def test_saving_writes_to_the_file_beside_what_others_changed(tmp_path):
    file = tmp_path / "facts.safetensors"
    filled(keep_paths=True).save(file)
    page = Page(Memory.load(file), FACTS, file)
    with pytest.raises(BadValue, match="no changes to save"):
        page("POST", "save")
    page("POST", "store", path="mine / says", value="woof")
    page("POST", "forget", path="key 1 / of", value="value 1")
    assert Memory.load(file).pairs == 120
    theirs = Memory.load(file)
    theirs.store([(("theirs", "says"), "meow")])
    theirs.save(file)
    assert page("POST", "save")["saved"] == 2
    saved = Memory.load(file)
    assert (saved["mine", "says"], saved["theirs", "says"], saved.pairs) == ("woof", "meow", 121)
    assert ("key 1", "of") not in saved
    assert (page("GET", "changes")["count"], page("GET", "overview")["pairs"]) == (0, 121)


def test_saving_again_after_a_failure_stores_nothing_twice(tmp_path, monkeypatch):
    flush, failures = os.fsync, 0
    for number in range(6):  # of the flush that fails
        file = tmp_path / f"{number}.safetensors"
        filled(keep_paths=True).save(file)
        page, calls = Page(Memory.load(file), FACTS, file), itertools.count()
        for verb, path, value in (
            ("store", "a / b", "c"),
            ("forget", "key 1 / of", "value 1"),
            ("store", "d / e", "f"),
        ):
            page("POST", verb, path=path, value=value)

        def failing(descriptor, calls=calls, number=number):
            if next(calls) == number:
                raise OSError(errno.EIO, "Input/output error")
            flush(descriptor)

        with monkeypatch.context() as patched, warnings.catch_warnings():
            patched.setattr(os, "fsync", failing)
            warnings.simplefilter("ignore", NotFlushed)
            try:
                assert page("POST", "save")["saved"] == 3
            except OSError:
                failures += 1
                assert Memory.load(file).pairs == 120 and page("GET", "changes")["count"] == 3
        if page("GET", "changes")["count"]:
            page("POST", "save")
        saved = Memory.load(file)
        assert (saved.pairs, saved["a", "b"], saved["d", "e"], len(saved)) == (121, "c", "f", 121)
    assert failures


@pytest.fixture
def changed(tmp_path):
    """A page with a change that is not saved, and its file."""
    file = tmp_path / "facts.safetensors"
    filled(keep_paths=True).save(file)
    page = Page(Memory.load(file), FACTS, file)
    page("POST", "store", path="mine / says", value="woof")
    return page, file


@pytest.fixture
def while_saving(changed, monkeypatch):
    """Send a request while a save writes its file, and return what it replied."""
    page, _ = changed
    began, go_on, write = Event(), Event(), Memory.save

    def slow(*how):
        began.set()
        go_on.wait(30)
        write(*how)

    def send(name, **values):
        replies = []

        def second():
            try:
                replies.append(page("POST", name, **values))
            except BadValue as error:
                replies.append(error)

        monkeypatch.setattr(Memory, "save", slow)
        saving, sending = Thread(target=page, args=("POST", "save")), Thread(target=second)
        saving.start()
        assert began.wait(30)
        sending.start()
        sending.join(0.5)  # it may have to wait until the file is written
        go_on.set()
        for thread in (saving, sending):
            thread.join(30)
        return replies[0]

    return send


def test_two_saves_at_once_store_once(changed, while_saving):
    page, file = changed
    assert "no changes to save" in str(while_saving("save"))
    assert (Memory.load(file).pairs, page("GET", "overview")["pairs"]) == (121, 121)


def test_what_is_stored_during_a_save_is_kept_for_the_next(changed, while_saving):
    page, file = changed
    assert while_saving("store", path="theirs / says", value="meow")["count"] == 1
    assert (Memory.load(file).pairs, page("GET", "changes")["count"]) == (121, 1)
    assert page("GET", "ask", path="theirs / says")["best"]["value"]["text"] == "meow"
    assert page("POST", "save")["saved"] == 1
    saved = Memory.load(file)
    assert (saved["mine", "says"], saved["theirs", "says"], saved.pairs) == ("woof", "meow", 122)


def test_a_save_whose_fresh_copy_fails_is_not_repeated(changed, monkeypatch):
    page, file = changed

    def failing(document):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Session, "of", failing)
        with pytest.raises(MemoryError):
            page("POST", "save")
    with pytest.raises(BadValue, match="no changes to save"):
        page("POST", "save")
    assert Memory.load(file).pairs == 121


def test_nothing_is_saved_without_leave(page):
    page("POST", "store", path="a / b", value="c")
    with pytest.raises(BadValue, match="--write"):
        page("POST", "save")


def test_quantized_memories_are_asked_and_not_changed():
    page = Page(filled(OSC(d=60, p=2, compact=True)).quantize(bits=4), FACTS)
    assert page("GET", "about")["quantized"]
    assert page("GET", "overview")["bytes"] == 1800
    assert page("GET", "ask", path="key 7 / of")["best"]["value"]["text"] == "value 7"
    assert page("GET", "decode")[-1]["converged"]
    with pytest.raises(BadValue, match="cannot be changed"):
        page("POST", "store", path="a", value="b")


def test_decoding_goes_round_by_round(page):
    first, *rounds, outcome = page("GET", "decode")
    assert first == dict(pairs=120, confident_from=0.9)
    assert [each["round"] for each in rounds] == list(range(1, len(rounds) + 1))
    assert (rounds[-1]["correct"], outcome["converged"]) == (1, True)
    assert len(outcome["examples"]) == 8
    assert Page(filled(keep_paths=True))("GET", "decode")[1]["correct"] is None
    with pytest.raises(BadValue, match="--files"):
        Page(filled())("GET", "decode")


def test_plans_have_what_is_to_be_copied(page, monkeypatch):
    for name in ("plans", "each_plan", "drafts"):  # of one kind: all of them take seconds
        monkeypatch.setattr(planning, name, partial(getattr(planning, name), scheme="HLB"))
    drafted, found, seen = page("GET", "plan", pairs="50", vocabulary="20", accuracy="0.9", bits="2")
    assert drafted["drafts"][0]["kind"] == found["plan"]["kind"] == "HLB"
    assert found["plan"] == seen["plans"][0]
    assert page("GET", "plan", pairs="50", vocabulary="20", accuracy="0.9", bits="2") == [seen]  # at once
    assert seen["plans"][0]["bytes"] == math.ceil(seen["plans"][0]["cells"] * 2 / 8)
    assert seen["command"].startswith("carving plan --pairs 50 --vocabulary 20 --accuracy 0.9 --bits 2")
    made = {"Memory": SimpleNamespace(for_size=lambda **requirements: plan(**requirements, scheme="HLB"))}
    exec(seen["python"], made)
    assert made["memory"].cells == seen["plans"][0]["cells"]


@pytest.mark.parametrize(
    ("method", "name", "values", "words"),
    [
        ("GET", "ask", dict(path="  "), "non-empty text"),
        ("GET", "ask", dict(path="x" * 5000), "characters"),
        ("GET", "ask", dict(path="x", prior_empty="2"), "prior_empty"),
        ("GET", "ask", dict(path="x", prior_empty="much"), "must be a number"),
        ("GET", "ask", dict(path="x", kind="none"), "one of one, top"),
        ("GET", "ask", dict(path="x", kind="top", top="0"), "top"),
        ("GET", "ask", dict(path="x", kind="value"), "must be a non-empty text"),
        ("GET", "cells", dict(at="1,2"), "indices"),
        ("GET", "cells", dict(at="x"), "at"),
        ("GET", "ask", dict(path="x", kind="top", top="--5"), "top"),
        ("GET", "plan", dict(pairs="0"), "pairs"),
        ("GET", "plan", dict(accuracy="1"), "accuracy"),
        ("POST", "store", dict(path="a", value=3), "must be a non-empty text"),
        ("GET", "overview", dict(session="another"), "Reload the page"),
    ],
)
def test_bad_questions_are_told_what_was_wanted(page, method, name, values, words):
    with pytest.raises((BadValue, TypeError), match=words):
        page(method, name, **values)


def test_an_empty_memory_can_be_looked_at_and_filled():
    page = Page(Memory(OSC(d=20, p=2)))
    assert page("GET", "overview")["most_stored"] == []
    assert page("GET", "load") == dict(load=None)
    page("GET", "cells")
    page("GET", "histogram")
    with pytest.raises(BadValue, match="Store something"):
        page("GET", "ask", path="x")
    assert page("POST", "store", path="x", value="y")["pairs"] == 1
    assert page("GET", "ask", path="x")["best"]["value"]["text"] == "y"


def test_so_many_pages_have_a_copy(memory):
    page = Page(memory)
    for _ in range(MAX_SESSIONS):
        page.sessions.open()
    with pytest.raises(BadValue, match="Reload the page"):
        page("GET", "overview")
    assert not page("GET", "about")["session_is_open"]


def test_a_page_that_is_looked_at_keeps_its_copy_however_often_others_are_loaded(memory):
    page = Page(memory)
    page("POST", "store", path="a / b", value="c")
    for _ in range(2 * MAX_SESSIONS):
        page.sessions.open()
        assert page("GET", "about")["session_is_open"]  # which a page asks again and again
    assert page("GET", "changes")["count"] == 1


def test_what_is_to_be_copied_says_all_digits():
    wish = planning.PlanRequest(10, 10, 0.99999999999, joint=False, bits=None)
    assert "--accuracy 0.99999999999 " in planning.command(wish)
    assert "accuracy=0.99999999999)" in planning.python(wish)


def test_every_value_of_an_answer_is_documented(page, monkeypatch):
    for name in ("plans", "each_plan", "drafts"):
        monkeypatch.setattr(planning, name, partial(getattr(planning, name), scheme="HLB"))
    table = EXPLORE.read_text().partition("| request |")[2].partition("\n\n")[0].splitlines()
    given = dict(path="key 7 / of", value="value 7", pairs="50", vocabulary="20", accuracy="0.9")
    for method, name in [route for route in ROUTES if route[1] != "save"]:  # which has no file here
        row = next(row for row in table if method in row.split("|")[1] and f"`{name}`" in row.split("|")[1])
        reply = page(method, name, **(given if name != "cells" else {}))
        for line in reply if isinstance(reply, list) else [reply]:
            keys = {*line, *(line.get("load") or {}), *line.get("scores", {})}
            assert keys <= set(re.findall(r"`(\w+)`", row)), name


# The door


def asked(server, path, method="GET", body=b"", **headers):
    """What the server sends: status, headers, body."""
    sent = []
    name, _, query = path.partition("?")
    given = {"host": HOST} | {key.replace("_", "-"): value for key, value in headers.items()}
    scope = dict(
        type="http",
        method=method,
        path=name,
        query_string=query.encode(),
        headers=[(key.encode(), value.encode()) for key, value in given.items() if value is not None],
    )
    parts = [] if body is None else [body[:10], body[10:]]  # of None nothing ever comes

    async def receive():
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(server(scope, receive, send))
    text = b"".join(each.get("body", b"") for each in sent[1:])
    return sent[0]["status"], {key.decode(): value.decode() for key, value in sent[0]["headers"]}, text


@pytest.fixture
def server(memory):
    return Server(SessionStore(MemoryDocument(memory, "some facts", FACTS)), "secret", (HOST,))


def test_the_page_is_handed_out_with_a_strict_policy(server):
    status, headers, body = asked(server, "/secret/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert body == PAGE["index.html"]
    for name in PAGE:
        assert asked(server, f"/secret/{name}")[0] == 200


def test_the_page_needs_no_network_and_no_markup_of_labels():
    for name, content in PAGE.items():
        text = content.decode()
        for word in ("https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
            assert word not in text, (name, word)
        outside = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in outside, name
    assert b"<script>" not in PAGE["index.html"]


@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/", {}, 403),
        ("/wrong/", {}, 403),
        ("/secret/", dict(host="evil.example"), 403),
        ("/secret/", dict(host=None), 403),
        ("/secret/api/about", dict(origin="http://evil.example"), 403),
        ("/secret/api/about", dict(origin=f"http://{HOST}"), 200),
        ("/secret/api/about", dict(Origin="http://evil.example", origin=f"http://{HOST}"), 403),
        ("/secret/api/about", dict(sec_fetch_site="cross-site"), 403),
        ("/secret/api/about", OTHER_SITE | dict(sec_fetch_dest="document"), 403),
        ("/secret/", OTHER_SITE | dict(sec_fetch_dest="iframe"), 403),
        ("/wrong/", OTHER_SITE | dict(sec_fetch_dest="document"), 403),
        ("/secret/", OTHER_SITE | dict(sec_fetch_dest="document"), 200),  # the file that the browser is started with
        ("/secret/../pyproject.toml", {}, 404),
        ("/secret/no.html", {}, 404),
        ("/secret/api/nothing", {}, 404),
        ("/secret/api/store", {}, 405),
        ("/secret/api/about", dict(method="DELETE"), 405),
        ("/secret/", dict(method="POST"), 405),
        ("/secret/api/session", dict(method="POST", body=b"{}"), 415),
        ("/secret/api/session", dict(method="POST", body=b"[]", content_type="application/json"), 400),
        ("/secret/api/session", dict(method="POST", body=b"{" * 2000, content_type="application/json"), 400),
        (
            "/secret/api/session",
            dict(method="POST", body=b" " * MAX_BODY_BYTES * 2, content_type="application/json"),
            413,
        ),
        ("/secret/api/session", dict(method="POST", body=b"{}", content_type="application/json"), 200),
        ("/secret/api/ask?path=x", {}, 400),
        ("/secret/api/about?" + "&".join(f"v{i}=1" for i in range(60)), {}, 400),
    ],
)
def test_only_our_page_is_let_in(server, path, how, status):
    found, headers, body = asked(server, path, **how)
    assert found == status
    assert headers["x-content-type-options"] == "nosniff"
    if status >= 400:
        assert set(json.loads(body)) == {"error"}


def test_rounds_come_one_a_line(server):
    session = server.sessions.open()
    status, headers, body = asked(server, f"/secret/api/decode?session={session}")
    lines = [json.loads(line) for line in body.splitlines()]
    assert (status, headers["content-type"]) == (200, "application/x-ndjson")
    assert (lines[0]["pairs"], lines[-1]["converged"]) == (120, True)


def test_a_bug_is_said_to_be_one(server, monkeypatch, capsys):
    monkeypatch.setitem(ROUTES, ("GET", "about"), lambda *_: 1 / 0)
    status, _, body = asked(server, "/secret/api/about")
    assert (status, "a bug in Carving" in json.loads(body)["error"]) == (500, True)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_bug_among_the_rounds_is_their_last_line(server, monkeypatch, capsys):
    def broken(*_):
        yield dict(pairs=1)
        raise ZeroDivisionError

    monkeypatch.setitem(ROUTES, ("GET", "decode"), broken)
    status, _, body = asked(server, "/secret/api/decode")
    first, last = map(json.loads, body.splitlines())
    assert (status, first, "a bug in Carving" in last["error"]) == (200, dict(pairs=1), True)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_answer_that_takes_too_long_is_given_up(server, monkeypatch):
    going_on = Event()
    monkeypatch.setattr("carving.explore.server.REQUEST_TIMEOUT", 0.05)
    monkeypatch.setitem(ROUTES, ("GET", "about"), lambda *_: going_on.wait(5))
    Timer(0.5, going_on.set).start()  # the thread itself cannot be ended from outside
    status, _, body = asked(server, "/secret/api/about")
    assert (status, "longer than" in json.loads(body)["error"]) == (503, True)


def test_a_round_that_takes_too_long_is_the_last(server, monkeypatch):
    going_on = Event()

    def slow(*_):
        yield dict(pairs=1)
        going_on.wait(5)
        yield dict(round=1)

    monkeypatch.setattr("carving.explore.server.REQUEST_TIMEOUT", 0.05)
    monkeypatch.setitem(ROUTES, ("GET", "decode"), slow)
    Timer(0.5, going_on.set).start()
    first, last = map(json.loads, asked(server, "/secret/api/decode")[2].splitlines())
    assert (first, "longer than" in last["error"]) == (dict(pairs=1), True)


def test_a_request_that_does_not_arrive_is_given_up(server, monkeypatch):
    monkeypatch.setattr("carving.explore.server.BODY_TIMEOUT", 0.05)
    how = dict(method="POST", body=None, content_type="application/json")
    status, _, body = asked(server, "/secret/api/session", **how)
    assert (status, "No complete request body" in json.loads(body)["error"]) == (408, True)


@pytest.mark.parametrize("begun", [b"", b"GET /secret/ HTTP/1.1\r\nHo"])
def test_who_connects_and_does_not_ask_is_not_waited_for(server, monkeypatch, begun):
    monkeypatch.setattr("carving.explore.serving.HEADER_TIMEOUT", 0.2)
    listening = listen(0)
    server.hosts = (f"127.0.0.1:{listening.getsockname()[1]}",)
    run = uvicorn_server(server)
    thread = Thread(target=run.run, kwargs=dict(sockets=[listening]))
    thread.start()
    try:
        with socket.create_connection(listening.getsockname(), timeout=20) as idle:
            idle.sendall(begun)
            assert idle.recv(100) == b""  # closed
        asked = f"GET /secret/api/about HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode()
        with socket.create_connection(listening.getsockname(), timeout=20) as going:
            for _ in range(3):  # one connection serves whoever goes on asking, however slowly
                going.sendall(asked)
                assert going.recv(100).startswith(b"HTTP/1.1 200")
                while not going.recv(4096).endswith(b"0\r\n\r\n"):
                    pass
                time.sleep(0.3)
    finally:
        run.should_exit = True
        thread.join(20)
        listening.close()


def test_an_address_without_its_last_stroke_is_led_to_the_page(server):
    status, headers, _ = asked(server, "/secret")
    assert (status, headers["location"]) == (308, "/secret/")


def test_labels_that_are_half_a_character_are_sent_as_escapes():
    held = filled(facts=[(("x",), "half \ud800"), (("y",), b"\xff"), (("z",), float("inf"))])
    server = Server(SessionStore(MemoryDocument(held, "odd")), "secret", (HOST,))
    for path in "xyz":
        status, _, body = asked(server, f"/secret/api/ask?path={path}&session={server.sessions.open()}")
        assert (status, json.loads(body)["best"]["found"]) == (200, True)


# The command


@pytest.fixture
def carving():
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


class Served(BadValue):
    """What would have been served."""


@pytest.fixture
def served(monkeypatch):
    """Serving ends at once: the document and how it was to be served."""
    seen = []

    def serve(*how):
        seen.extend(how)
        raise Served("served")

    monkeypatch.setattr("carving.explore.serve", serve)
    return seen


def test_the_command_opens_what_it_is_given(tmp_path, carving, served):
    file, facts = tmp_path / "facts.safetensors", tmp_path / "facts.tsv"
    facts.write_text("dog\tsays\twoof\ncat\tsays\tmeow\n")
    carving("store", str(file), str(facts), "--d", "40", "--p", "2")
    carving("explore", str(file), "--files", str(facts), "--no-browser", "--port", "8000", "--write")
    document, port, browser, _ = served
    assert (document.memory.pairs, document.name, document.file, port, browser) == (2, file.name, file, 8000, False)
    assert document.pairs == [(("dog", "says"), "woof"), (("cat", "says"), "meow")]
    served.clear()
    other = tmp_path / "other.tsv"
    other.write_text("cow\tsays\tmoo\n")
    carving("explore", str(file), "--files", str(facts), str(other), "--no-browser")
    assert [value for _, value in served[0].pairs] == ["woof", "meow", "moo"]
    served.clear()
    with open_memory(file) as opened:  # whose change lies in a journal beside the file
        opened.store({"cow": {"says": "moo"}})
    carving("explore", str(file))
    assert (served[0].memory.pairs, served[0].memory.recall("cow", "says").value) == (3, "moo")
    served.clear()
    carving("quantize", str(file), "-o", str(tmp_path / "quantized.safetensors"))
    carving("explore", str(tmp_path / "quantized.safetensors"))
    assert (served[0].memory.bits, served[0].file, served[2]) == (2, None, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--write"], "require MEMORY"),
        (["--files", "facts.tsv"], "facts.tsv does not exist"),
        (["missing.safetensors"], "missing.safetensors"),
        (["one.safetensors", "facts.tsv"], "with --files"),
    ],
)
def test_a_command_that_makes_no_sense_is_told_so(tmp_path, carving, monkeypatch, served, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = carving("explore", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not served


def test_a_port_that_is_taken_is_told():
    with listen(0) as taken, pytest.raises(BadValue, match="not permitted"):
        listen(taken.getsockname()[1])


@pytest.mark.skipif(os.name == "nt", reason="the browser is a script of the shell")
@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_the_command_line_of_the_browser_has_no_token(tmp_path, end, status):
    file, browser, told = tmp_path / "facts.safetensors", tmp_path / "browser", tmp_path / "told"
    filled().save(file)
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o755)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "carving", "explore", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            address = re.search(r"http://\S+", running.stdout.readline()).group()
            until = time.monotonic() + 60
            while not told.exists() and time.monotonic() < until:
                time.sleep(0.05)
            argument = told.read_text().strip()
            assert address.split("/")[-2] not in argument and argument.startswith("file://")
            page = Path(argument.removeprefix("file://"))
            assert address in page.read_text()
            assert [stat.S_IMODE(each.stat().st_mode) for each in (page, page.parent)] == [0o600, 0o700]
            running.send_signal(end)
            assert running.wait(60) == status and not page.parent.exists()
        finally:
            running.kill()

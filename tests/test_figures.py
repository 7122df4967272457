"""Figures: a series looks alike everywhere, few are emphasised, names cover no other, words instead of letters."""

from itertools import pairwise

import pytest

from carving.lab import NAMES, load
from carving.lab.experiment import Gaps, Heat, Lines, TablePanel, grid
from carving.lab.lines import draw_lines
from carving.lab.naming import spread
from carving.lab.panels import with_cells
from carving.lab.style import EMPHASISED, GREY, SIZE, family, looks
from carving.lab.ticks import apart, short, tick_text
from carving.lab.words import AXES, axis_words, setting_words

VSAS = ("HRR", "FHRR", "GHRR", "MAP-I", "MAP-B", "BSC", "CGR", "VTB", "MBAT")
MANY = [*(f"{name}, 4,096 numbers" for name in (*VSAS, "HLB")), *(f"OSC, {d} x {d}" for d in (25, 50, 100, 200))]


def test_a_series_looks_alike_whatever_stands_beside_it():
    few, many = looks(["HLB", "TPR", "OSC, order 2"]), looks([*VSAS, "OSC, order 2", "HLB"])
    assert few["HLB"] == many["HLB"] and few["OSC, order 2"] == many["OSC, order 2"]
    assert few["OSC, order 2"].color == looks(["OSC, order 3"])["OSC, order 3"].color


def test_orders_and_numbers_of_pairs_do_not_change_the_color():
    chosen = looks(["OSC, order 2", "OSC, order 3", "OSC, order 4", "OSC, compact fillers, order 2, 1,000 pairs"])
    *orders, compact = chosen.values()
    assert len({look.color for look in orders}) == 1 and len({(look.marker, look.hollow) for look in orders}) == 3
    assert compact.color == looks(["OSC, compact fillers, order 2"])["OSC, compact fillers, order 2"].color


def test_other_numbers_of_pairs_keep_the_color_where_their_marks_differ():
    names = [f"OSC{kind}, order {order}, {pairs} pairs" for order, pairs in ((2, "1,000"), (3, "2,000"))
             for kind in ("", ", compact fillers")]  # fmt: skip
    chosen = looks(names)
    for kind in ("OSC", "OSC, compact fillers"):
        two, three = (chosen[name] for name in names if family(name).rpartition(", ")[0] == kind)
        assert two.color == three.color == looks([kind])[kind].color
        assert (two.dash, two.hollow) != (three.dash, three.hollow)
    clash = looks(["OSC, order 2, 1,000 pairs", "OSC, order 2, 2,000 pairs"])
    assert len({look.color for look in clash.values()}) == 2


def test_osc_is_blue_beside_memories_of_other_kinds_too():
    chosen = looks(["linear attention, causal", "DeltaNet, causal", "OSC, causal", "OSC together, not causal"])
    assert chosen["OSC, causal"].color == looks(["OSC"])["OSC"].color
    assert len({look.color for look in chosen.values()}) == 4


def test_points_above_each_other_are_not_joined():
    axes = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    rows = [
        {"setting": {"scheme": "OSC", "cells": cells, "k1": k1}, "seed": 0, "measured": {"right": 0.1 * k1}}
        for cells, k1 in ((8, 3), (8, 5), (10, 4))
    ]
    panel = Lines("cells", "right", ("scheme",), "some")
    draw_lines(axes, panel, rows, (), looks(["OSC"]))
    assert axes.lines[0].get_linestyle() == "None"
    draw_lines(axes, panel, rows[1:], (), looks(["OSC"]))
    assert axes.lines[-1].get_linestyle() == "-"


@pytest.mark.parametrize("name", NAMES)
def test_a_series_has_one_name_in_all_panels_of_a_figure(name):
    keys = [panel.series for panel in load(name).panels if isinstance(panel, Lines)]
    assert len({tuple(each) for each in keys}) == len({frozenset(each) for each in keys})


def test_at_most_seven_series_are_emphasised_and_all_others_are_named_beside_their_lines():
    names = [f"kind {letter}" for letter in "abcdefghijkl"]
    chosen = looks(names)
    assert sum(not look.faint for look in chosen.values()) == EMPHASISED
    assert all(look.labeled for look in chosen.values() if look.faint)
    emphasised = [look for look in chosen.values() if not look.faint]
    assert len({look.color for look in emphasised}) == len({look.marker for look in emphasised}) == EMPHASISED


def test_among_many_the_lesser_architectures_are_grey():
    chosen = looks(MANY)
    assert all((chosen[name].color == GREY) == (not name.startswith(("HLB", "OSC"))) for name in MANY)
    sizes = [chosen[name] for name in MANY if name.startswith("OSC")]
    assert len({look.color for look in sizes}) == 4 and all(look.labeled for look in sizes)


def test_of_many_sizes_three_are_emphasised_and_the_others_thin():
    names = [f"{kind}, {d} x {d}" for kind in ("OSC", "TPR") for d in (25, 50, 75, 100, 125, 150, 175, 200)]
    chosen = looks(names)
    strong = [name for name in names if not chosen[name].faint]
    assert strong == [f"{kind}, {d} x {d}" for kind in ("OSC", "TPR") for d in (25, 125, 200)]
    assert all(look.labeled for look in chosen.values()) and len({look.color for look in chosen.values()}) == 16


@pytest.mark.parametrize("heights", [[0.5] * 6, [0, 0.01, 0.02, 0.9, 1, 1], [1.0] * 20, [0.3]])
def test_names_do_not_cover_each_other(heights):
    placed = spread(heights, 0.04)
    assert all(high - low >= 0.04 - 1e-6 for low, high in pairwise(placed))
    assert max(placed) <= 1.02 + 1e-9


def test_settings_are_told_in_words():
    setting = {"scheme": "OSC", "d": 60, "p": 3, "compact": True, "joint": True, "spread": 1.2, "N": 1000}
    words = setting_words(setting, list(setting))
    assert words == "OSC, 60 x 60 x 60, compact fillers, joint decoding, spread 1.2, 1,000 pairs"
    assert setting_words({"scheme": "HLB", "d": 4096}, ("scheme", "d")) == "HLB, 4,096 numbers"
    assert family(words) == "OSC, compact fillers, joint decoding, spread, 1,000 pairs" and SIZE.search(words)


@pytest.mark.parametrize("name", NAMES)
def test_no_axis_is_a_letter(name):
    for panel in load(name).panels:
        if isinstance(panel, TablePanel):
            continue
        keys = (panel.value,) if isinstance(panel, Gaps) else (panel.x, panel.y)
        labels = [axis_words(key) for key in keys]
        if isinstance(panel, Lines | Gaps) and panel.label:
            labels[-1] = panel.label
        assert all(len(label) > 3 for label in labels), labels
        assert "=" not in panel.title.replace("p=", "")
        assert not isinstance(panel, Heat) or all("(" not in guide for guide in panel.guides or {})


def test_dimensions_become_cells_where_kinds_of_them_meet():
    rows = [{"setting": setting, "measured": {"d": 10}} for setting in grid(scheme=["OSC", "TPR", "HLB"], p=3)]
    assert [with_cells(row)["measured"]["cells"] for row in rows] == [1000, 100, 10]
    assert "cells" not in with_cells({"setting": {}, "measured": {"d": 10}})["measured"]
    assert AXES["cells"] == "cells of the memory"


def test_ticks_are_short():
    assert [tick_text(tick) for tick in (1000, 12.194, 1411.2)] == ["1,000", "12.2", "1,411"]
    assert [short(value) for value in (500, 2e6, 3.4e9)] == ["500", "2 million", "3.4 billion"]


def test_ticks_of_a_logarithmic_axis_have_room():
    assert apart([50, 100, 500, 1000, 5000, 10000]) == [50, 100, 500, 1000, 10000]
    assert apart([30]) == [30]

"""The reproduction lab: rows survive kills, depend on nothing but the setting, and tables do their sums right."""

import gzip
import json
import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from carving import lab as experiments
from carving.errors import BadValue
from carving.lab import NAMES, beyond, load, measures, paper, reproduce
from carving.lab.experiment import SCALES, Experiment, Gaps, Lines, Points, Published, Trial, grid, planned, trials
from carving.lab.lines import draw_lines
from carving.lab.measures.bases import BASES, bases
from carving.lab.measures.calibration import calibration
from carving.lab.measures.calibration import error as calibration_error
from carving.lab.measures.dimensions import minimum_dimension
from carving.lab.measures.predictions import predicted
from carving.lab.measures.retrieval import accuracy, share_recognized, share_right
from carving.lab.measures.schemes import scheme_of, seed_within, used_evenly
from carving.lab.panels import log_fit, measured_pairs
from carving.lab.report import Outcome
from carving.lab.report import write as write_report
from carving.lab.rows import key_of, read_rows, write_rows
from carving.lab.runner import pool, run
from carving.lab.style import looks
from carving.lab.summaries import compare, summary
from carving.lab.tables import comparison_table, panel_table
from carving.storage.locks import lock_for

QUIET = Console(quiet=True)


def noise(setting: dict[str, int], seed: int) -> dict[str, float]:
    """A trial that depends on its setting and seed, and takes a little while."""
    time.sleep(setting.get("wait", 0))
    return {"value": setting["a"] + torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()}


TOY = Experiment(
    name="toy",
    title="a toy",
    source="nowhere",
    measure=noise,
    scales={"smoke": (trials(3, grid(a=[1, 2], b="x")),)},
    panels=(Lines("a", "value", ("b",)),),
)


def rows_without_times(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def run_toy(file: Path, toy: Experiment = TOY, workers: int = 1) -> list[dict[str, object]]:
    with pool(workers) as where:
        return rows_without_times(run(toy, "smoke", file, where, QUIET))


# Rows


def test_a_row_says_what_made_it(tmp_path):
    run_toy(tmp_path / "toy.jsonl")
    for row in read_rows(tmp_path / "toy.jsonl"):
        assert row.keys() >= {"setting", "trial", "seed", "measured", "seconds", "versions"}
        assert row["versions"].keys() == {"carving", "torch", "numpy", "python"}


def test_a_run_that_was_cut_off_goes_on_and_gives_the_same_rows(tmp_path):
    whole = run_toy(tmp_path / "whole.jsonl")
    text = (tmp_path / "whole.jsonl").read_bytes()
    for end in (1, len(text) // 3, len(text) // 2, len(text) - 1):  # torn anywhere, within a line as between two
        file = tmp_path / f"cut{end}.jsonl"
        file.write_bytes(text[:end])
        assert run_toy(file) == whole
        assert rows_without_times(read_rows(file)) == whole


def test_compressed_rows_are_read(tmp_path):
    whole, file = run_toy(tmp_path / "toy.jsonl"), tmp_path / "toy.jsonl"
    (tmp_path / "toy.jsonl.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert rows_without_times(read_rows(file)) == whole
    by_its_name = tmp_path / "toy.jsonl.gz"
    before = by_its_name.read_bytes()
    assert rows_without_times(read_rows(by_its_name)) == whole
    assert by_its_name.read_bytes() == before  # it has no torn line to cut


def test_finished_rows_are_not_run_again(tmp_path):
    def refuse(setting: object, seed: int) -> dict[str, float]:
        raise AssertionError("ran again")

    first = run_toy(tmp_path / "toy.jsonl")
    assert run_toy(tmp_path / "toy.jsonl", replace(TOY, measure=refuse)) == first


def test_a_process_that_is_killed_values_rows_that_another_completes(tmp_path):
    file, code = (
        tmp_path / "toy.jsonl",
        "from tests.test_experiments import slow_toy; slow_toy(__import__('sys').argv[1])",
    )
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code, str(file)], cwd=root, env=environment)
    try:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_bytes().count(b"\n") >= 2):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    done = len(read_rows(file))
    assert 2 <= done < 20
    assert run_toy(file, SLOW) == run_toy(tmp_path / "other.jsonl", replace(SLOW, measure=hurried))


SLOW = replace(TOY, scales={"smoke": (trials(20, grid(a=[1], wait=0.05)),)})


def hurried(setting: dict[str, int], seed: int) -> dict[str, float]:
    return noise({**setting, "wait": 0}, seed)


def slow_toy(file: str) -> None:
    run_toy(Path(file), SLOW)


def test_rows_do_not_depend_on_the_number_of_workers(tmp_path):
    # `interference` rather than the toy: a real measure, in fresh interpreters
    experiment = replace(
        load("interference"), scales={"smoke": (trials(2, grid(scheme="OSC", d=12, p=2, k1=3, N=20, repeats=2)),)}
    )
    found = [run_toy(tmp_path / f"{workers}.jsonl", experiment, workers) for workers in (1, 2)]
    assert found[0] == found[1]
    assert (tmp_path / "1.jsonl").read_text().count("\n") == 2


def test_rows_do_not_depend_on_the_order_of_the_grid(tmp_path):
    turned = replace(TOY, scales={"smoke": (trials(3, [{"b": "x", "a": a} for a in (2, 1)]),)})
    first, second = run_toy(tmp_path / "1.jsonl"), run_toy(tmp_path / "2.jsonl", turned)
    by_seed = [sorted(rows, key=lambda row: row["seed"]) for rows in (first, second)]
    assert by_seed[0] == by_seed[1]


def test_every_trial_has_a_seed_of_its_own():
    seeds = [trial.seed(name) for name in NAMES for trial in planned(load(name), "paper")]
    assert len(set(seeds)) == len(seeds)


ROW = {"setting": {}, "trial": 0, "measured": {"value": 1}, "seconds": 0.5, "versions": {"carving": "1"}}


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[" * 100_000,
        "[]",
        *(json.dumps({key: value for key, value in ROW.items() if key != name}) for name in ROW),
        json.dumps(ROW | {"measured": {"value": "1"}}),
        json.dumps(ROW | {"versions": {"carving": {}}}),
        json.dumps(ROW | {"setting": []}),
        f'{{"trial": {"1" * 5_000}}}',
    ],
    ids=lambda line: line[:40],
)
def test_a_line_that_is_no_row_is_refused_with_its_number(tmp_path, line):
    good = json.dumps(ROW)
    (tmp_path / "toy.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(BadValue, match="line 2"):
        read_rows(tmp_path / "toy.jsonl")


def test_rows_that_are_no_text_or_no_archive_are_told(tmp_path):
    (tmp_path / "toy.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(BadValue, match="line 1: expected UTF-8 text"):
        read_rows(tmp_path / "toy.jsonl")
    (tmp_path / "other.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROW).encode())[:-9])
    with pytest.raises(BadValue, match="truncated"):
        read_rows(tmp_path / "other.jsonl")


def test_a_torn_line_is_cut_off_wherever_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("carving.lab.rows.BLOCK", 7)
    line = json.dumps(ROW) + "\n"
    for whole in (0, 1, 3):
        for torn in range(0, len(line), 5):
            (tmp_path / "toy.jsonl").write_text(line * whole + line[:torn])
            assert read_rows(tmp_path / "toy.jsonl") == [ROW] * whole
            assert (tmp_path / "toy.jsonl").read_text() == line * whole


def test_zeros_that_a_power_failure_left_are_no_row(tmp_path):
    line = json.dumps(ROW) + "\n"
    torn = line[:9] + "\0" * (len(line) - 9)
    (tmp_path / "toy.jsonl").write_text(line + torn + line + "\0" * 50 + "\n" + line + torn)
    assert read_rows(tmp_path / "toy.jsonl") == [ROW, ROW]  # the second one's line begins with what was torn


def test_rows_are_on_the_disk_before_they_take_their_place(tmp_path, monkeypatch):
    done, flush, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (done.append("flushed"), flush(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replaced"), replace(*names)))
    write_rows(tmp_path / "toy.jsonl", [ROW])
    assert done == ["flushed", "replaced", "flushed"]  # the file, its place, the folder
    assert read_rows(tmp_path / "toy.jsonl") == [ROW] and os.listdir(tmp_path) == ["toy.jsonl"]


def test_a_run_waits_for_no_other_and_leaves_no_lock_behind(tmp_path):
    taken, done = threading.Event(), threading.Event()

    def other_run():
        with lock_for(tmp_path / "report.md"):
            taken.set()
            done.wait(60)

    other = threading.Thread(target=other_run)
    other.start()
    try:
        assert taken.wait(60)
        with pytest.raises(OSError, match="Another run is writing to"):
            reproduce(["triangle"], "smoke", out=tmp_path, workers=1)
    finally:
        done.set()
        other.join()
    reproduce(["triangle"], "smoke", out=tmp_path, workers=1)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_words_of_rows_are_no_markup_in_a_report(tmp_path):
    hostile = "<script>alert(1)</script> ![x](http://x) | `a`\n# \x1b[31m"
    setting = {"a": 1, "b": hostile}
    row = ROW | {"setting": setting, "versions": {"carving": hostile}, "measured": {"value": 1}}
    toy = replace(TOY, unpublished="none", scales={"smoke": (trials(1, [setting]),)})
    text = write_report([Outcome(toy, [row])], "smoke", tmp_path).read_text()
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in text and text.count("alert(1)") >= 2
    for written in (text, page):
        assert "<script" not in written and "\x1b" not in written
    assert "\n# " not in text[1:] and "![x](" not in text


# The tables' arithmetic, against numbers worked out by hand


def made(values: list[float], questions: int | None = None) -> list[dict[str, object]]:
    more = {} if questions is None else {"questions": questions}
    return [{"setting": {"a": 1}, "trial": i, "measured": {"value": v, **more}} for i, v in enumerate(values)]


def test_a_difference_is_told_in_standard_errors_of_both():
    rows = made([9.0, 10.0, 11.0])  # mean 10, deviation 1, standard error 1/sqrt(3)
    published = Published({"a": 1}, "value", 12.0, spread=2.0)  # standard error 2/sqrt(10)
    found = compare("toy", published, rows)
    assert found.difference == pytest.approx(-2 / math.sqrt(1 / 3 + 0.4))
    assert found.verdict == "agrees"
    far = compare("toy", replace(published, value=20.0, why="of the moon"), rows)
    assert far.verdict == "differs: of the moon"


def test_a_single_draw_is_taken_to_be_as_random_as_one_of_ours():
    published = Published({"a": 1}, "value", 12.0, unit=1.0, single=True)
    found = compare("toy", published, made([9.0, 10.0, 11.0]))  # deviation 1, standard error 1/sqrt(3), steps of 1
    assert found.difference == pytest.approx(-2 / math.sqrt(1 / 3 + 1 + 2 / 12))
    assert compare("toy", published, made([11.0, 11.0])).verdict == "agrees"  # no deviation, but steps of 1


def test_few_questions_are_not_taken_for_certainty():
    found = summary(made([1.0, 1.0], questions=48), {"a": 1}, "value")
    assert found.deviation == 0
    chance = 97 / 98  # 96 hits of 96, one head and one tail added
    assert found.error == pytest.approx(math.sqrt(chance * (1 - chance) / 96))


def test_counts_agree_when_they_are_equal_as_printed():
    for value, verdict in ((2_523_136, "agrees"), (2_526_000, "differs: reason unknown")):
        assert compare("toy", Published({"a": 1}, "value", 2.52e6, 0.01e6), made([value])).verdict == verdict


def test_a_single_trial_of_a_random_number_has_no_verdict():
    assert "no standard error" in compare("toy", Published({"a": 1}, "value", 1.0), made([1.5])).verdict


def test_what_was_not_run_has_nothing_in_our_column():
    found = compare("toy", Published({"a": 2}, "value", 1.0), made([1.5, 1.6]))
    assert found.ours is None and found.verdict == "not measured at this scale"
    assert comparison_table([found])[1][0][3] == ""


def test_the_best_of_several_settings_is_ours():
    rows = made([1.0, 1.1]) + [
        {"setting": {"a": 1, "b": 2}, "trial": i, "measured": {"value": 5.0 + i}} for i in (0, 1)
    ]
    assert compare("toy", Published({"a": 1}, "value", 5.4, best=True), rows).ours.mean == 5.5
    with pytest.raises(ValueError, match="Add keys"):
        compare("toy", Published({"a": 1}, "value", 5.4), rows)


def test_a_logarithm_is_fitted_by_a_logarithm():
    assert log_fit([(x, 3 + 2 * math.log(x), 0.0) for x in (1.0, 5.0, 20.0, 70.0)]) == pytest.approx((3, 2, 1))


def test_points_pair_what_ends_alike():
    measured = [{"said 0": 0.1, "right 0": 0.3, "said 1": 0.9, "right 1": 0.8}, {"said 0": 0.3, "right 0": 0.3}]
    rows = [{"setting": {"a": 1}, "trial": i, "measured": numbers} for i, numbers in enumerate(measured)]
    panel = Points("said", "right", ("a",))
    ((first, second),) = measured_pairs(rows, panel)
    assert (first[0].mean, first[1].mean, second[0].mean, second[1].mean) == pytest.approx((0.2, 0.3, 0.9, 0.8))
    assert panel_table(rows, panel)[1] == []  # a curve is drawn, not listed


def test_points_are_listed_with_the_largest_difference():
    measured = [{"predicted_accuracy": 0.5, "simulated": 0.4}, {"predicted_accuracy": 0.7, "simulated": 0.75}]
    rows = [{"setting": {"a": i}, "trial": 0, "measured": numbers} for i, numbers in enumerate(measured)]
    *points, largest = panel_table(rows, Points("predicted_accuracy", "simulated", ("a",)))[1]
    assert [line[-1] for line in points] == ["+0.1000", "-0.0500"] and largest[-1] == "+0.1000"


def test_gaps_are_listed_in_standard_errors():
    rows = [{"setting": {"a": 1}, "trial": i, "measured": {"gain": gain}} for i, gain in enumerate((-0.01, -0.03))]
    first, largest = panel_table(rows, Gaps("gain", ("a",)))[1]
    assert first == ["a 1", "-0.02 ± 0.01", "2", "-2.0"] and largest[1] == "-0.0200"


def test_upright_lines_stand_where_each_size_has_them():
    sizes = [{"kind": "a", "N": pairs, "bits a pair": x} for pairs in (16, 64) for x in (5.0, 50.0)]
    rows = [{"setting": setting, "trial": 0, "measured": {"retrieval": 0.5}} for setting in sizes]
    panel, axes = load("bits").panels[0], pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    legend = draw_lines(axes, panel, rows, (), looks(["a"]))
    upright = {line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2}
    assert sorted(upright) == pytest.approx([4, 4.04, 6, 6.06])
    assert list(legend) == ["a", *panel.marks]


# Measures


def test_a_gain_is_that_of_memories_with_the_same_fillers():
    setting = {"scheme": "OSC", "signed": True, "d": 20, "p": 2, "N": 60, "repeats": 1}
    found = bases(setting | {"asks": "gain"}, 3)
    alone = [accuracy(setting | {"basis": basis}, seed_within(3, 0))["retrieval"] for basis in BASES]
    assert [found[basis] for basis in BASES] == alone and alone[0] != alone[1]
    assert found["gain"] == alone[1] - alone[0]
    fillers = [scheme_of(setting | {"basis": basis}, 3).fillers(range(5)) for basis in BASES]
    assert torch.equal(*fillers)


def test_shared_contexts_are_right_when_all_of_their_fillers_are():
    setting = {"scheme": "OSC", "signed": True, "d": 30, "p": 2, "N": 40, "L": 40, "questions": 40, "repeats": 2}
    one, four = (bases(setting | {"asks": "gain", "shared": shared}, 0)["blocks"] for shared in (1, 4))
    assert four < one


def test_a_setting_without_a_basis_has_the_paper_s():
    setting = {"scheme": "OSC", "d": 24, "p": 2, "k1": 2, "N": 60, "L": 60}
    assert scheme_of(setting, 0).basis == "gaussian"
    assert predicted(setting, 60) == predicted(setting | {"basis": "gaussian"}, 60)
    assert predicted(setting, 60) != predicted(setting | {"basis": "blocks"}, 60)


def test_a_calibration_error_is_the_mean_distance_of_the_bins():
    said, right = torch.tensor([0.5, 0.5, 0.9, 0.9]).double(), torch.tensor([1.0, 1.0, 1.0, 0.0]).double()
    assert calibration_error(said, right) == pytest.approx((2 * 0.5 + 2 * 0.4) / 4)


def test_an_overfull_memory_is_calibrated():
    setting = {"scheme": "OSC", "signed": True, "d": 40, "p": 2, "N": 150, "L": 100, "fillers": "even", "asked": 3000}
    measured = calibration(setting, 1)
    assert 0.4 < measured["right"] < 0.95
    assert measured["error"] < 0.05


@pytest.mark.parametrize(("contexts", "shared", "vocabulary"), [(40, 1, 7), (12, 5, 20), (20, 3, 200)])
def test_fillers_are_used_evenly_and_differ_within_a_context(contexts, shared, vocabulary):
    fillers = used_evenly(contexts, shared, vocabulary, torch.Generator().manual_seed(0))
    assert fillers.shape == (contexts, shared)
    assert all(len(set(row)) == shared for row in fillers.tolist())
    counts = torch.bincount(fillers.flatten(), minlength=vocabulary)
    assert counts.max() - counts.min() <= 1


def test_equal_scores_share_the_prize():
    scores = torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    assert share_right(scores, torch.tensor([0, 2])) == 0.25
    assert share_right(scores, torch.tensor([1, 1])) == 0.75


def test_recognition_compares_with_one_wrong_candidate():
    generator = torch.Generator().manual_seed(0)
    scores = torch.tensor([[3.0, 1.0, 2.0]]).expand(4000, 3)
    for right, expected in ((0, 1.0), (1, 0.0), (2, 0.5)):
        found = share_recognized(scores, torch.full((4000,), right), generator)
        assert found == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(4000))
    assert share_recognized(torch.zeros(10, 2), torch.zeros(10, dtype=torch.int64), generator) == 0.5


def test_the_published_osc_has_no_signs():
    assert not scheme_of({"scheme": "OSC", "d": 9}, 0).signed
    assert scheme_of({"scheme": "OSC", "d": 9, "signed": True}, 0).signed


def test_the_minimum_dimension_grows_with_the_number_of_pairs():
    found = [minimum_dimension({"scheme": "TPR", "N": n, "repeats": 10}, 1)["d"] for n in (10, 40)]
    assert 8 <= found[0] < found[1] <= 60


# Examples: test_public.py runs them


@pytest.mark.parametrize("package", [experiments, measures])
def test_what_is_public_has_an_example(package):
    public = [getattr(package, name) for name in package.__all__ if callable(getattr(package, name))]
    assert public and all(">>>" in thing.__doc__ for thing in public)


# Every experiment


SMOKE = pytest.mark.xdist_group("smoke")  # in one process, so that it runs once


@pytest.fixture(scope="session")
def smoke(tmp_path_factory, once):
    once("smoke")
    folder = tmp_path_factory.mktemp("smoke")
    return folder, reproduce(NAMES, "smoke", out=folder, workers=1, console=QUIET)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_names_a_published_number_or_says_why_there_is_none(name):
    experiment = load(name)
    assert experiment.name == name
    assert bool(experiment.published) != bool(experiment.unpublished)
    assert experiment.scales.keys() == set(SCALES)
    for published in experiment.published:
        at_paper = [trial.setting for trial in planned(experiment, "paper")]
        # every number that the paper prints is reached by the paper's own scale
        assert any(published.speaks_of(setting) for setting in at_paper), published


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_plain_values(name):
    for scale in SCALES:
        for trial in planned(load(name), scale):
            assert json.loads(json.dumps(trial.setting)) == trial.setting


@pytest.mark.parametrize("name", NAMES)
def test_a_published_number_speaks_of_one_setting_at_every_scale(name):
    experiment = load(name)
    for scale in SCALES:
        settings = [json.loads(key)[0] for key in {Trial(t.setting, 0).key for t in planned(experiment, scale)}]
        for published in experiment.published:
            assert published.best or sum(map(published.speaks_of, settings)) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_is_one_short_file(name):
    folder = paper if name in paper.NAMES else beyond
    file = Path(folder.__file__).parent / f"{name.replace('-', '_')}.py"
    assert len(file.read_text().splitlines()) <= 80


@SMOKE
@pytest.mark.parametrize("name", NAMES)
def test_the_report_holds_every_experiment_that_ran(smoke, name):
    folder, _ = smoke
    rows = read_rows(folder / f"{name}.jsonl")
    assert len(rows) == len(planned(load(name), "smoke"))
    for report in ("report.md", "report.html"):
        assert load(name).title in (folder / report).read_text().replace("&#x27;", "'")
    if any(isinstance(panel, Lines | Points) for panel in load(name).panels):
        assert f"({name}.svg)" in (folder / "report.md").read_text()
        assert (folder / f"{name}.svg").stat().st_size > 5_000
        assert (folder / f"{name}.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize("folder", [paper, beyond])
def test_every_file_of_experiments_is_in_the_list(folder):
    files = {file.stem.replace("_", "-") for file in Path(folder.__file__).parent.glob("*.py")} - {"--init--"}
    assert files == set(folder.NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_that_are_kept_are_those_of_the_paper_s_scale(name):
    kept = read_rows(Path(__file__).parent.parent / "results" / "paper" / f"{name}.jsonl")
    plan = {trial.key: trial for trial in planned(load(name), "paper")}
    rows = [row for row in kept if key_of(row) in plan]
    assert len(rows) >= 0.99 * len(kept)  # a trial or two more than the grid asks for do no harm
    assert all(row["seed"] == plan[key_of(row)].seed(name) and row["experiment"] == name for row in rows)


def test_a_run_draws_its_own_figures_and_reads_every_file_once(tmp_path, monkeypatch):
    reproduce(["triangle"], "smoke", out=tmp_path, workers=1, console=QUIET)
    before = (tmp_path / "triangle.svg").stat().st_mtime_ns
    opened = []
    plain = Path.open

    def noted(file, mode="r", *rest, **options):
        if mode == "rb":
            opened.append(file.name)
        return plain(file, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", noted)
    drawn = []
    monkeypatch.setattr("carving.lab.reproduction.draw", lambda experiment, *_: drawn.append(experiment.name))
    reproduce(["joint"], "smoke", out=tmp_path, workers=1, console=QUIET)
    assert drawn == ["joint"]
    assert (tmp_path / "triangle.svg").stat().st_mtime_ns == before
    assert [name for name in opened if name.endswith(".jsonl")] == ["triangle.jsonl"]  # joint's is new
    opened.clear()
    reproduce(["joint"], "smoke", out=tmp_path, workers=1, console=QUIET)
    assert sorted(name for name in opened if name.endswith(".jsonl")) == ["joint.jsonl", "triangle.jsonl"]
    text = (tmp_path / "report.md").read_text()
    assert "## triangle" in text and "(triangle.svg)" in text and "## joint" in text


def test_compressed_rows_are_completed_and_not_unpacked_for_nothing(tmp_path):
    whole, file = run_toy(tmp_path / "toy.jsonl"), tmp_path / "toy.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    (tmp_path / "toy.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    file.unlink()
    assert run_toy(file) == whole and not file.exists()
    (tmp_path / "toy.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:2])))
    assert run_toy(file) == whole and rows_without_times(read_rows(file)) == whole


WITHOUT = """
import sys
for name in {packages}:
    sys.modules[name] = None  # to import it is an error
import importlib, pkgutil
from pathlib import Path
from rich.console import Console
import carving.lab
from carving.lab import load, reproduce
for module in pkgutil.walk_packages(carving.lab.__path__, "carving.lab."):
    importlib.import_module(module.name)
console = Console(file=sys.stdout, width=1000)
{code}
"""


def without(packages: list[str], code: str) -> str:
    """What is printed by code that runs where these packages are not installed, after importing all of the lab."""
    run = [sys.executable, "-c", WITHOUT.format(packages=packages, code=code)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout


def test_without_extras_figures_and_multi_label_are_skipped_and_multi_label_alone_is_refused(tmp_path):
    said = without(
        ["scipy", "sklearn", "matplotlib"],
        f"""
folder = Path({str(tmp_path)!r})
try:
    reproduce(['multi-label'], 'smoke', out=folder, workers=1, console=console)
except ImportError as error:
    print(type(error).__name__, error)
reproduce(['flops', 'multi-label', 'triangle'], 'smoke', out=folder, workers=1, console=console)
""",
    )
    refused, skipped, undrawn = said.splitlines()
    assert refused == "MissingExtra scipy is not installed. Install it with: pip install 'carving[multilabel]'"
    assert skipped.startswith("multi-label: skipped. scipy is not installed")
    assert "matplotlib is not installed. Install it with: pip install 'carving[plots]'" in undrawn
    assert {file.name for file in tmp_path.iterdir()} == {"flops.jsonl", "triangle.jsonl", "report.md", "report.html"}


@SMOKE
def test_the_answer_holds_every_published_number(smoke):
    _, found = smoke
    assert len(found) == sum(len(load(name).published) for name in NAMES)
    assert json.loads(json.dumps(experiments.as_json(found), allow_nan=False))["comparisons"]


def test_a_report_is_over_what_ran_and_nothing_else(tmp_path):
    reproduce(["flops"], "smoke", out=tmp_path, workers=1, console=QUIET)
    text = (tmp_path / "report.md").read_text()
    assert "## flops" in text and "## speed" not in text


def test_an_unknown_experiment_is_refused_with_a_hint(tmp_path):
    with pytest.raises(ValueError, match="Did you mean flops"):
        reproduce(["flop"], "smoke", out=tmp_path)
    with pytest.raises(ValueError, match="scale must be one of"):
        reproduce(["flops"], "tiny", out=tmp_path)


def test_the_root_of_d_may_be_rounded_up():
    for d, nearest, up in ((16, 4, 4), (17, 4, 5), (25, 5, 5), (27, 5, 6), (34, 6, 6)):
        setting = {"scheme": "OSC", "d": d, "p": 3}
        assert scheme_of(setting, 0).k1 == nearest
        assert scheme_of(setting | {"up": True}, 0).k1 == up


def test_a_published_number_may_speak_of_what_a_setting_does_not_have():
    published = Published({"d": 3, "up": None}, "d", 1, 1)
    assert published.speaks_of({"d": 3}) and not published.speaks_of({"d": 3, "up": True})

"""The multi-label experiment: data sets are found or told missing, and the paper's table is copied right."""

import io
import lzma
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from carving.lab import load, reproduce
from carving.lab.experiment import planned, trials
from carving.lab.measures.datasets import dataset_files, parts, synthetic
from carving.lab.measures.labels import FromFiles, setting_of
from carving.lab.paper.multi_label import EXPERIMENT, HEADS, TABLE


def text_of(data):
    lines = [f"{len(data)} {data.features.shape[1]} {data.labels.shape[1]}"]
    for x, y in zip(data.features, data.labels, strict=True):
        pairs = " ".join(f"{i}:{v:g}" for i, v in zip(x.indices, x.data, strict=True))
        lines.append(f"{','.join(map(str, y.indices))} {pairs}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a tiny set under the name of Bibtex."""
    (tmp_path / "data").mkdir()
    for part, data in (("train", synthetic(60)), ("test", synthetic(30, first=60))):
        (tmp_path / "data" / f"bibtex_{part}.txt.xz").write_bytes(lzma.compress(text_of(data).encode()))
    return tmp_path / "data"


@pytest.fixture
def hurried(monkeypatch):
    """The experiment over two data sets, in one short epoch."""
    settings = [setting_of(n, h, "paper") | {"epochs": 1, "hidden": 8} for n in ("Bibtex", "Eurlex-4K") for h in HEADS]
    short = replace(EXPERIMENT, scales={**EXPERIMENT.scales, "small": (trials(1, settings),)})
    monkeypatch.setattr("carving.lab.paper.multi_label.EXPERIMENT", short)
    assert load("multi-label") is short


def test_the_table_is_the_papers():
    """It says itself how often each method came first and among the first two: 16 columns of its table."""
    first, two = Counter(), Counter()
    for numbers in TABLE.values():
        for at in (0, 2):
            order = sorted(HEADS, key=lambda head: -numbers[4 * HEADS.index(head) + at])
            first[order[0]] += 1
            two.update(order[:2])
    assert {head: first[head] / 16 for head in HEADS} == {"OSC": 0.4375, "VTB": 0.375, "HLB": 0.1875, "MAP": 0}
    assert {head: two[head] / 16 for head in HEADS} == {"OSC": 0.6875, "VTB": 0.6875, "HLB": 0.625, "MAP": 0}
    assert len(EXPERIMENT.published) == 64


def test_the_paper_s_scale_has_five_seeds_and_both_sets_of_hyper_parameters():
    settings = [trial.setting for trial in planned(EXPERIMENT, "paper")]
    for name in TABLE:
        for head in HEADS:
            for variant in ("paper", "code"):
                wanted = {"dataset": name, "head": head, "variant": variant}
                assert sum(wanted.items() <= setting.items() for setting in settings) == 5
    assert setting_of("Bibtex", "HLB", "code")["trainable"] and not setting_of("Bibtex", "HLB", "paper")["trainable"]
    assert (
        setting_of("Delicious", "VTB", "code")["batch"] == 64 and setting_of("Delicious", "HLB", "code")["batch"] == 256
    )


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("Bibtex", ["bibtex_train.txt.xz", "bibtex_test.txt.xz"]),
        ("Bibtex", ["bibtex-train.arff", "bibtex-test.arff"]),
        ("Bibtex", ["Bibtex/Bibtex_data.txt", "Bibtex/bibtex_trSplit.txt", "Bibtex/bibtex_tstSplit.txt"]),
        ("Eurlex-4K", ["Eurlex/eurlex_train.txt", "Eurlex/eurlex_test.txt"]),
        ("Eurlex-4.3K", ["EURLex-4.3K/train.txt", "EURLex-4.3K/test.txt"]),
        ("Amazon-13K", ["AmazonCat-13K.bow/train.txt", "AmazonCat-13K.bow/test.txt"]),
        ("Delicious-200K", ["DeliciousLarge/deliciousLarge_train.txt.gz", "DeliciousLarge/deliciousLarge_test.txt"]),
    ],
)
def test_data_sets_are_found_under_the_names_that_they_have(tmp_path, name, files):
    for file in files[:-1]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
        assert dataset_files(tmp_path, name) is None
    (tmp_path / files[-1]).touch()
    one, other = dataset_files(tmp_path, name)
    seen = {str(path.relative_to(tmp_path)) for path in (*one, *other) if path is not None}
    assert seen == set(files)
    assert [other for other in TABLE if dataset_files(tmp_path, other)] == [name]


def test_a_split_file_chooses_the_rows(tmp_path):
    data = synthetic(20)
    (tmp_path / "bibtex_data.txt").write_text(text_of(data))
    (tmp_path / "bibtex_trSplit.txt").write_text("".join(f"{i} {21 - i}\n" for i in range(1, 13)))
    (tmp_path / "bibtex_tstSplit.txt").write_text("".join(f"{i} {21 - i}\n" for i in range(13, 21)))
    train, test = parts(tmp_path, "Bibtex", 1)
    np.testing.assert_array_equal(train.labels.toarray(), data.labels[:12].toarray())
    np.testing.assert_array_equal(test.features.toarray(), data.features[12:].toarray())
    assert parts(tmp_path, "Bibtex", 7)[0].features.shape == (12, 60 // 7)


def test_what_is_missing_is_told_and_listed_in_the_report(tmp_path, folder, hurried):
    told = Console(file=io.StringIO(), width=1000)
    answer = reproduce(["multi-label"], "small", out=tmp_path / "out", workers=1, console=told, data=folder)
    assert "skipped Eurlex-4K" in told.file.getvalue()
    report = (tmp_path / "out" / "report.md").read_text()
    assert "Missing: Eurlex-4K." in report and "manikvarma.org" in report and "eurlex_train.txt" in report
    assert "Bibtex, paper" in report
    reached = [one.published.where for one in answer if one.ours is not None]
    assert {where["dataset"] for where in reached} == {"Bibtex"} and {where["head"] for where in reached} == set(HEADS)


def test_without_data_it_is_refused_alone_and_skipped_among_others(tmp_path, hurried):
    quiet = Console(quiet=True)
    with pytest.raises(ValueError, match="Pass data, the folder"):
        reproduce(["multi-label"], "small", out=tmp_path, workers=1, console=quiet)
    with pytest.raises(NotADirectoryError, match="not a folder"):
        reproduce(["multi-label"], "small", out=tmp_path, workers=1, console=quiet, data=tmp_path / "nowhere")
    told = Console(file=io.StringIO(), width=1000)
    file = tmp_path / "multi-label.jsonl"
    file.touch()
    reproduce(["flops", "multi-label"], "small", out=tmp_path, workers=1, console=told, fresh=True)
    assert "skipped Bibtex, Eurlex-4K; no folder of data sets was given" in told.file.getvalue()
    assert (
        "## flops" in (tmp_path / "report.md").read_text()
        and "## multi-label" not in (tmp_path / "report.md").read_text()
    )
    assert file.exists()  # its rows are not thrown away by a run that skips it


def test_a_trial_depends_on_setting_seed_and_files_alone(tmp_path, folder):
    setting = setting_of("Bibtex", "OSC", "paper") | {"epochs": 2, "hidden": 16, "d": 24}
    first = FromFiles(folder)(setting, 7)
    assert FromFiles(folder)(setting, 7) == first != FromFiles(folder)(setting, 8)
    assert FromFiles(folder.rename(tmp_path / "elsewhere"))(setting, 7) == first


def test_parts_that_do_not_belong_together_are_refused(folder):
    (folder / "bibtex_test.txt.xz").write_bytes(lzma.compress(text_of(synthetic(9, known=39)).encode()))
    with pytest.raises(ValueError, match="belong together"):
        parts(folder, "Bibtex", 1)

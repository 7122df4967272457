"""Shards of experiments: all of them together are the whole run, and the report takes them in."""

import json

import pytest
from rich.console import Console

from carving.errors import BadValue
from carving.lab import reproduce
from carving.lab.catalogue import load
from carving.lab.experiment import planned
from carving.lab.shards import Shard, shard_files

QUIET = Console(quiet=True)


def rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def without_times(row):
    return {name: value for name, value in row.items() if name != "seconds"}


def test_every_trial_is_in_one_shard():
    experiment = load("capacity-4096")
    shards = [Shard(number, 5) for number in range(1, 6)]
    for trial in planned(experiment, "small"):
        assert sum(shard.has(trial, experiment.name) for shard in shards) == 1


def test_shards_run_their_part_and_a_whole_run_takes_them_in(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    wanted = reproduce(["triangle"], "smoke", out=whole, workers=1, console=QUIET)
    for number in (1, 2, 3):
        assert reproduce(["triangle"], "smoke", out=parts, workers=1, console=QUIET, shard=f"{number}/3") == []
    assert not (parts / "report.md").exists() and not (parts / "triangle.jsonl").exists()
    files = shard_files(parts / "triangle.jsonl")
    assert len(files) == 3
    torn = files[0].read_bytes() + b'{"experiment": "tri'  # which its job is just writing
    files[0].write_bytes(torn)
    reported = reproduce(["triangle"], "smoke", out=parts, workers=1, console=QUIET)
    assert [each.verdict for each in reported] == [each.verdict for each in wanted]
    assert files[0].read_bytes() == torn
    ours, theirs = (rows(folder / "triangle.jsonl") for folder in (parts, whole))
    assert list(map(without_times, ours)) == list(map(without_times, theirs))
    before = {file: file.stat().st_mtime_ns for file in files[1:]}
    reproduce(["triangle"], "smoke", out=parts, workers=1, console=QUIET, shard="2/3")  # nothing is run twice
    assert {file: file.stat().st_mtime_ns for file in files[1:]} == before


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_what_is_no_shard_is_refused(text, tmp_path):
    with pytest.raises(BadValue, match="shard must be NUMBER/TOTAL, counted from 1, such as 3/16"):
        reproduce(["triangle"], "smoke", out=tmp_path, workers=1, console=QUIET, shard=text)

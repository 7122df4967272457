"""A rank that dies or hangs ends the others, which say who it was; commands in ranks, and how they end."""

import json
import os
import signal
import sys
import time

import pytest
import torch
from crew import crew_in

from carving import OSC, Memory
from carving.cli import ranks as launching
from carving.distributed import LostRank, Ranks


def waits_for_rank(ranks, who, what):
    """Rank `who` does not come to the second exchange: it dies, or sleeps."""
    Ranks(ranks.group).gather("all are here")  # what was exchanged by another object counts, too
    ranks = Ranks(ranks.group)
    if ranks.rank == who:
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    return Ranks(ranks.group).sum_(torch.ones(5))


@pytest.mark.parametrize("what", ["die", "hang"])
def test_a_rank_that_is_lost_ends_the_others_within_the_timeout_and_is_named(tmp_path, what):
    with crew_in(tmp_path, timeout=3.0) as crew:
        crew(exchanged)  # all are there
        started = time.monotonic()
        crew.send(waits_for_rank, 1, what)
        outcomes = [crew.outcome(rank) for rank in (0, 2)]
        assert time.monotonic() - started < 30  # of a machine that has much else to do
        crew.processes[1].kill()
    for done, (kind, words) in outcomes:
        assert not done and kind == "LostRank"
        assert words.startswith("Rank 1 died or did not respond within the group's timeout; rank")
        assert "Nothing was changed" in words


@pytest.mark.parametrize("kind", [RuntimeError, torch.OutOfMemoryError, NotImplementedError])
def test_only_a_broken_connection_is_a_lost_rank(kind):
    def work():
        raise kind("shapes (2,) and (3,) do not fit, or there is no memory left")

    with pytest.raises(kind) as raised:
        Ranks.alone().exchange(work)
    assert raised.type is kind


BROKEN = [
    RuntimeError("[/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation"),
    RuntimeError("[/pytorch/gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:1234"),
    RuntimeError("Application timeout caused pair closure"),
    torch.distributed.DistNetworkError("the client socket has failed"),
]


@pytest.mark.parametrize("error", BROKEN, ids=str)
def test_a_broken_connection_or_a_timeout_is_a_lost_rank(error):
    def work():
        raise error

    with pytest.raises(LostRank) as raised:
        Ranks.alone().exchange(work)
    assert raised.value.__cause__ is error


def exchanged(ranks):
    return ranks.gather(ranks.rank)


def of_other_shapes(ranks):
    from torch import distributed as dist

    return ranks.exchange(lambda: dist.all_gather([torch.empty(3)] * ranks.size, torch.empty(4), group=ranks.group))


def test_a_wrong_shape_in_an_exchange_is_no_lost_rank_and_the_next_exchange_works(crew):
    assert all(
        kind == "RuntimeError" and "tensor size" in words for kind, words in crew.errors(of_other_shapes, ranks=2)
    )
    assert crew(exchanged, ranks=2) == [[0, 1]] * 2


# Commands


pytestmark = pytest.mark.xdist_group("ranks")  # in one process, so that torch is imported once for all ranks


@pytest.fixture(scope="module")
def crew(tmp_path_factory, once):
    once("ranks-faults")
    with crew_in(tmp_path_factory.mktemp("ranks"), size=2) as crew:
        yield crew


def command(ranks, arguments):
    """A command as torchrun gives it to every rank: its exit status, and what it prints."""
    from typer.testing import CliRunner

    from carving.cli import app

    os.environ.update(RANK=str(ranks.rank), WORLD_SIZE=str(ranks.size))
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.fixture
def graph(tmp_path):
    lines = [json.dumps({"name": f"n{i % 17}", "kind": [f"k{i % 5}", i % 3]}) + "\n" for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(lines[:30]))
    (tmp_path / "b.jsonl").write_text("".join(lines[30:]) + "no JSON\n")
    return [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]


def contents(file):
    held = Memory.load(file)
    return (
        list(held.vocabulary),
        held.counts.tolist(),
        list(held),
        held.target,
        held.scheme,
        held._reader.sample.weights,
    )


def test_a_command_in_ranks_does_what_it_does_alone_and_only_the_first_speaks(crew, graph, tmp_path):
    from typer.testing import CliRunner

    from carving.cli import app

    options = ["--skip-bad", "--keep-paths", "--json", "--d", "60", "--p", "2"]
    one, many = tmp_path / "one.safetensors", tmp_path / "many.safetensors"
    for times in (1, 2):  # a new memory, and one that is there
        alone = CliRunner().invoke(app, ["store", str(one), *map(str, graph), *options, "--force"])
        assert alone.exit_code == 0, alone.output
        (first, text), (second, silence) = crew(command, ["store", many, *graph, *options, "--force"], ranks=2)
        assert first == second == 0 and silence == ""
        ours, theirs = (json.loads(each.splitlines()[-1]) for each in (alone.output, text))
        assert theirs == ours | dict(file=str(many)) and ours["skipped"] == 1 and ours["stored"] == 120
        assert contents(many) == contents(one)
        torch.testing.assert_close(Memory.load(many).tensor, Memory.load(one).tensor, rtol=1e-5, atol=1e-5 * times)


def test_ranks_verify_files_together(crew, graph, tmp_path):
    file = tmp_path / "m.safetensors"
    memory = Memory(OSC(d=40, p=2))
    memory.store([((i, "name"), f"n{i % 17}") for i in range(40)])
    memory.save(file)
    (tmp_path / "names.jsonl").write_text("".join(json.dumps({"name": f"n{i % 17}"}) + "\n" for i in range(40)))
    arguments = ["verify", file, tmp_path / "names.jsonl", "--joint", "--json"]
    (status, text), (other, silence) = crew(command, arguments, ranks=2)
    assert status == other == 0 and silence == ""
    assert json.loads(text)["correct"] == 40


def test_ranks_consolidate_files_together(crew, tmp_path):
    file, facts = tmp_path / "m.safetensors", tmp_path / "facts.json"
    pairs = {f"key {i}": f"value {i}" for i in range(60)}
    memory = Memory(OSC(d=24, k1=4, compact=True))
    memory.store(pairs)
    memory.save(file)
    facts.write_text(json.dumps(pairs))
    (status, text), (other, silence) = crew(command, ["consolidate", file, facts, "--json"], ranks=2)
    assert status == other == 0 and silence == ""
    said = json.loads(text)
    assert said["correct"] == 60 > said["before"] and said["consolidated"]
    assert Memory.load(file).verify(pairs).correct == 60


def test_what_goes_wrong_in_ranks_is_said_once_and_leaves_the_file(crew, graph, tmp_path):
    file = tmp_path / "m.safetensors"
    Memory(OSC(d=20)).save(file)
    before = file.read_bytes()
    (status, text), (other, silence) = crew(command, ["store", file, *graph], ranks=2)  # the bad line is rank 1's
    assert status == other == 2 and silence == ""
    assert "Rank 1 failed, and nothing was changed" in text and "b.jsonl, line 11" in text
    assert file.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} <= {"a.jsonl", "b.jsonl", file.name, f"{file.name}.lock"}
    (status, text), _ = crew(command, ["store", file, "-", "--format", "jsonl"], ranks=2)
    assert status == 2 and "processes can only share files, got -" in text


# Starting them


def run(script, workers=2):
    return launching.launch([sys.executable, "-c", script], workers)


def test_ranks_are_started_with_their_numbers_and_only_the_first_is_heard(capfd):
    assert run("import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])") == launching.ExitStatus(
        0
    )
    assert capfd.readouterr().out == "rank 0 of 2\n"


LISTENING = """
import os, stat
from carving.distributed import process_group

def listening(pid):
    sockets = {os.path.basename(os.path.realpath(each)) for each in os.scandir(f"/proc/{pid}/fd")}
    for file in ("tcp", "tcp6"):
        for line in list(open(f"/proc/net/{file}"))[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield fields[1].split(":")[0]

with process_group(60) as ranks:
    print(*ranks.gather(ranks.rank), *listening("self"), *listening(os.getppid()))
    folder = os.path.dirname(os.environ["CARVING_STORE"])
    print(oct(stat.S_IMODE(os.stat(folder).st_mode)), folder)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who listens")
def test_workers_listen_to_this_machine_alone(capfd, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")  # for ranks of several machines
    ended = run(LISTENING)
    found, meeting = capfd.readouterr().out.splitlines()
    zero, one, *addresses = found.split()
    assert (zero, one, set(addresses), ended) == ("0", "1", {"0100007F"}, launching.ExitStatus(0))  # 127.0.0.1
    mode, folder = meeting.split()
    assert mode == "0o700" and not os.path.exists(folder)


def test_when_one_rank_fails_the_others_are_ended(monkeypatch):
    monkeypatch.setattr(launching, "GRACE", 0.2)
    started = time.monotonic()
    ended = run("import os, sys, time; sys.exit(5) if os.environ['RANK'] == '1' else time.sleep(60)")
    assert ended == launching.ExitStatus(5, 1) and ended.signal is None and time.monotonic() - started < 30
    ended = run("import os, time; os.kill(os.getpid(), 9) if os.environ['RANK'] == '1' else time.sleep(60)")
    assert ended.rank == 1 and ended.signal == "SIGKILL"


@pytest.mark.slow
def test_workers_store_and_one_that_is_killed_leaves_the_old_file(graph, tmp_path):
    import subprocess

    file = tmp_path / "m.safetensors"
    arguments = [
        sys.executable,
        "-m",
        "carving",
        "store",
        str(file),
        *map(str, graph),
        "--skip-bad",
        "--force",
        "--workers",
        "2",
    ]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("Stored 120 pairs"), done.stderr
    before = file.read_bytes()
    running = subprocess.Popen([*arguments, "--timeout", "60"], stderr=subprocess.PIPE, text=True)
    children = []
    while len(children) < 2:
        time.sleep(0.05)
        with open(f"/proc/{running.pid}/task/{running.pid}/children") as listed:
            children = listed.read().split()
        assert running.poll() is None
    os.kill(int(children[1]), signal.SIGKILL)
    _, words = running.communicate(timeout=120)
    assert running.returncode == 2 and "worker 1 of 2 was killed by SIGKILL" in words
    assert file.read_bytes() == before
    again = subprocess.run(arguments, capture_output=True, text=True)
    assert again.returncode == 0 and "Stored 120 pairs" in again.stdout

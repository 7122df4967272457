"""Memories whose tensor is spread over two and three ranks: they hold, answer and write what one process does."""

import pytest
import torch
from crew import crew_in
from test_ranks import slice_of
from test_ranks_asking import close

import carving
from carving import OSC, Memory, make
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.memory.slabs import RowShardedMemory
from carving.schemes.slab import RowShard, rows_of

pytestmark = pytest.mark.xdist_group("ranks")  # in one process, so that torch is imported once for all ranks


@pytest.fixture(scope="module")
def crew(tmp_path_factory, once):
    once("slabs")
    with crew_in(tmp_path_factory.mktemp("ranks")) as crew:
        yield crew


# Rows of the protocol: what parts write and read adds up to what the whole does


SCHEMES = [
    OSC(d=13, p=1, k1=4),
    OSC(d=12, p=2),
    OSC(d=12, p=2, k1=9),
    OSC(d=12, p=2, spread=1.0),
    OSC(d=9, p=3, compact=True),
    OSC(d=8, p=4, k1=3),
    OSC(d=8, p=4, k1=6),
    OSC.paper(d=9, p=3),
    OSC.paper(d=9, p=3, k1=7),
    OSC(d=9, p=3, basis="gaussian", compact=True, spread=0.5),
    make("TPR", d=9, depth=1),
    make("TPR", d=5, depth=2),
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_rows_of_the_first_mode_add_up_to_the_whole(scheme):
    double = scheme.like(dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    contexts = double.contexts([(f"a{i}", i)[: getattr(scheme, "depth", 2)] for i in range(20)])
    fillers, weights = double.random(20, generator), torch.rand(20, generator=generator, dtype=torch.float64)
    cores = torch.randn(20, *double.facts.core_shape, generator=generator, dtype=torch.float64)
    memory = double.trace(contexts, fillers, weights)
    added, written, read, adjoint = [], [], 0, 0
    for rank in range(3):
        own = rows_of(rank, 3, scheme.d)
        rows = torch.zeros_like(memory[own])
        double._add(rows, contexts, fillers, weights, own)
        added.append(rows)
        written.append(double.write_rows(cores, contexts, own))
        read = read + double.read_rows(rows, contexts, own)
        adjoint = adjoint + double.adjoint_rows(rows, contexts, own)
    torch.testing.assert_close(torch.cat(added), memory)
    torch.testing.assert_close(torch.cat(written), double.write(cores, contexts))
    torch.testing.assert_close(read, double.read(memory, contexts))
    torch.testing.assert_close(adjoint, double.adjoint(memory, contexts))


def test_schemes_without_a_first_mode_are_refused_with_the_way_out():
    with pytest.raises(BadValue, match=r"Only memories of OSC and TPR .* got VSA.*Memory\(scheme\)"):
        RowShardedMemory(make("HRR", d=64), Ranks.alone())


@pytest.mark.parametrize("verb", ["forget", "merge", "grow", "consolidate", "quantize", "__add__"])
def test_what_slabs_do_not_do_is_told_with_the_way_out(verb):
    memory = RowShardedMemory(OSC(d=20, p=2), Ranks.alone())
    with pytest.raises(BadValue, match=r"sharded over ranks .* Memory\.load\(file\)"):
        getattr(memory, verb)({"a": "b"})


# Ranks against one process


MEMORIES = {
    "ordinary": OSC(d=40, p=2, k1=5),
    "compact": OSC(d=16, p=3, compact=True),
    "gaussian": OSC.paper(d=14, p=3),
    "forbidden": OSC(d=20, p=2, k1=14),
    "fourth order": OSC(d=9, p=4, compact=True),
    "TPR": make("TPR", d=40, whole_path=True),
}
PAIRS = [((f"place {i}",), f"value {i % 20}") for i in range(40)] + [(("place 0",), "value 9")]
PATHS = [(f"place {i}",) for i in range(12)] + [("nowhere", i) for i in range(4)]


def asked(memory, joint):
    """Everything that there is to ask."""
    together = memory.decode([path for path, _ in PAIRS]) if joint else None
    return dict(
        single=memory.recall_many(PATHS),
        candidates=memory.recall_many(PATHS, candidates=["value 3", "value 4"], prior_empty=0.1),
        weighed=memory.recognize_many([*PAIRS[:8], (("nowhere",), "value 1")]),
        joint=[] if together is None else [*together],
        rounds=None if together is None else (together.converged, together.rounds),
        tops=[answer for each in memory.recall_many(PATHS[:6], top=3) for answer in each],
        sets=[[answer.value for answer in each] for each in memory.recall_sets(PATHS)],
        right=memory.verify(PAIRS).correct,
        foreseen=memory.predicted_accuracy(),
    )


def whole_life(ranks, scheme, joint, file, before):
    """Stored by all ranks, asked, saved, loaded by as many, and stored again."""
    memory = RowShardedMemory(scheme, ranks.group, keep_paths=True)
    stored = memory.store(slice_of(ranks, PAIRS))
    answers = asked(memory, joint)
    memory.save(file)
    again = RowShardedMemory.load(file, ranks.group)
    assert torch.equal(again.tensor, memory.tensor) and list(again) == list(memory)
    other = RowShardedMemory.load(before, ranks.group)
    other.store(PAIRS[:1] if ranks.rank == 1 else [], weight=-1.0)
    return stored, answers, len(memory.tensor), other.tensor


@pytest.mark.parametrize("name", MEMORIES)
def test_slabs_store_answer_and_write_what_one_process_does(crew, name, tmp_path):
    scheme, count, joint = MEMORIES[name], 2 if name in ("ordinary", "fourth order") else 3, name not in ("forbidden",)
    alone = Memory(scheme, keep_paths=True)
    alone.store(PAIRS)
    alone.save(tmp_path / "alone.safetensors")
    wanted = asked(alone, joint)
    given = crew(whole_life, scheme, joint, tmp_path / "slabs.safetensors", tmp_path / "alone.safetensors", ranks=count)
    for stored, answers, rows, _ in given:
        assert stored == len(PAIRS) and rows in (scheme.d // count, -(-scheme.d // count))
        for kind in ("single", "candidates", "weighed", "joint"):
            close(answers[kind], wanted[kind])
        close(answers["tops"], wanted["tops"], unsure=2e-3)
        assert all(answers[kind] == wanted[kind] for kind in ("sets", "rounds", "right", "foreseen"))
    assert sum(rows for _, _, rows, _ in given) == scheme.d
    one, other = (Memory.load(tmp_path / file) for file in ("alone.safetensors", "slabs.safetensors"))
    torch.testing.assert_close(one.tensor, other.tensor, rtol=1e-5, atol=1e-5)
    assert list(one.vocabulary) == list(other.vocabulary) and torch.equal(one.counts, other.counts)
    alone.store(PAIRS[:1], weight=-1.0)
    torch.testing.assert_close(torch.cat([rows for *_, rows in given]), alone.tensor, rtol=1e-5, atol=1e-5)
    assert {each.name for each in tmp_path.iterdir()} >= {"alone.safetensors", "slabs.safetensors"}
    assert not [each for each in tmp_path.iterdir() if each.suffix not in (".safetensors", ".lock")]


def read_alone(ranks, file):
    """What rank 0 reads of memories that all ranks have made, while the others do nothing."""
    stored = RowShardedMemory(OSC(d=40, p=2, k1=5), ranks.group)
    for _ in range(2):  # that pairs are there twice shows by the energy alone
        stored.store(slice_of(ranks, PAIRS))
    seen = []
    for memory in (stored, RowShardedMemory.load(file, ranks.group)):
        for _ in range(2 if ranks.rank == 0 else 0):
            seen.append(
                (memory.predicted_accuracy(), memory.predicted_accuracy(1000), memory.is_overfull, memory.pairs)
            )
            assert "82 pairs" in repr(memory)
    return seen


def test_one_rank_alone_reads_properties(tmp_path):
    whole = Memory(OSC(d=40, p=2, k1=5))
    for _ in range(2):
        whole.store(PAIRS)
    whole.save(tmp_path / "whole.safetensors")
    with crew_in(tmp_path, size=2, timeout=10.0) as crew:
        seen, _ = crew(read_alone, tmp_path / "whole.safetensors", ranks=2)
    predicted = [pytest.approx(whole.predicted_accuracy(more), abs=1e-4) for more in (0, 1000)]
    assert [list(each) for each in seen] == 4 * [[*predicted, whole.is_overfull, whole.pairs]]


def failures(ranks, folder):
    """What goes wrong, told on every rank, and leaves the memory as it was."""
    memory, sentences = RowShardedMemory(OSC(d=12, p=2), ranks.group), []
    memory.store(slice_of(ranks, PAIRS))
    before = memory._reader

    def attempt(work):
        try:
            work()
        except Exception as error:
            sentences.append(f"{type(error).__name__}: {error}")
        assert memory._reader is before

    def bad_pairs():
        yield ("a",), "b"
        if ranks.rank == 1:
            raise BadValue("line 7 is bad")

    attempt(lambda: memory.store(bad_pairs()))
    attempt(lambda: memory.store([(("a",), object())] if ranks.rank == 0 else []))
    attempt(lambda: memory.store([]))
    attempt(lambda: memory.save(folder / "nowhere" / "m.safetensors"))
    attempt(lambda: RowShardedMemory.load(folder / "solved.safetensors", ranks.group))
    attempt(lambda: RowShardedMemory.load(folder / "damaged.safetensors", ranks.group))
    attempt(lambda: RowShardedMemory.load(folder / "HRR.safetensors", ranks.group))
    attempt(lambda: RowShardedMemory(OSC(d=12, p=2, seed=ranks.rank), ranks.group))
    attempt(lambda: RowShardedMemory(OSC(d=2, p=2, k1=1), ranks.group))
    return sentences


def test_what_fails_on_one_rank_fails_on_all_and_changes_nothing(crew, tmp_path):
    solved = Memory(OSC(d=16, k1=4, compact=True))
    solved.store(PAIRS[:40])
    solved.save(tmp_path / "damaged.safetensors")
    data = bytearray((tmp_path / "damaged.safetensors").read_bytes())
    data[-1500] ^= 1
    (tmp_path / "damaged.safetensors").write_bytes(data)
    solved.consolidate(PAIRS[:40])
    assert solved.is_consolidated
    solved.save(tmp_path / "solved.safetensors")
    Memory(make("HRR", d=64)).save(tmp_path / "HRR.safetensors")
    one, other, third = crew(failures, tmp_path)
    assert one[0] == third[0] == "RankFailed: Rank 1 failed, and nothing was changed: line 7 is bad"
    assert other[0] == "BadValue: line 7 is bad"
    wanted = [
        "The value at",
        "at least one pair",
        "nowhere",
        "was consolidated",
        "is not a complete",
        "split into rows",
        "same scheme",
    ]
    for each in (one, other, third):
        assert len(each) == 9
        for words, sentence in zip(wanted, each[1:], strict=False):
            assert words in sentence
        assert "A memory of 2 rows can be split over at most 2 ranks" in each[-1]


def test_a_slab_is_the_scheme_but_for_its_rows():
    scheme = OSC(d=20, p=2)
    part = RowShard(scheme, Ranks.alone())
    assert part.facts == scheme.facts and part.name == "OSC" and part.parameters == scheme.parameters
    memory = RowShardedMemory(scheme, None)
    assert memory.store(PAIRS) == 41 and "rows 0 to 19 of 20 on rank 0" in repr(memory)


def test_changes_in_a_journal_are_not_overlooked(tmp_path):
    file = tmp_path / "m.safetensors"
    memory = RowShardedMemory(OSC(d=20, p=2), None)
    memory.store(PAIRS)
    memory.save(file)
    with carving.open(file) as opened:
        opened.store([(("x",), "y")])
    with pytest.raises(BadValue, match=r"open\(file\).compact"):
        RowShardedMemory.load(file, None)


def test_the_rows_of_a_changed_scheme():
    part = RowShard(OSC(40), Ranks.alone())
    assert part.like(dtype=torch.float64).zeros().dtype == torch.float64
    assert part.like(d=90).whole == OSC(90) and part.like(seed=3).seed == 3

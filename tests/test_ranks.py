"""Two and three ranks on one machine store and ask as one process does."""

import pickle
from dataclasses import replace

import pytest
import torch
from crew import crew_in

from carving import OSC, Memory, make
from carving.distributed import Ranks
from carving.errors import BadType, BadValue
from carving.memory.capacity import survey
from carving.memory.reader import Reader
from carving.multilabel.osc import OSCHead
from carving.planner.requirements import Target

pytestmark = pytest.mark.xdist_group("ranks")  # in one process, so that torch is imported once for all ranks


@pytest.fixture(scope="module")
def crew(tmp_path_factory, once):
    once("ranks")
    with crew_in(tmp_path_factory.mktemp("ranks")) as crew:
        yield crew


BOTH = pytest.mark.parametrize("count", [2, 3])
PAIRS = [((f"document {i % 50}", f"field {i % 7}", i), f"value {(i * i) % 61}") for i in range(300)]


def slice_of(ranks, pairs):
    """The pairs of a rank: in order, and of different numbers."""
    return pairs[len(pairs) * ranks.rank // ranks.size : len(pairs) * (ranks.rank + 1) // ranks.size]


def contents(memory):
    """Everything that a memory is."""
    state = memory._reader
    known = None if state.path_counts is None else dict(state.path_counts.weights())
    return dict(
        tensor=state.tensor, values=list(state.vocabulary), counts=state.counts.tolist(), paths=known,
        sample=(state.sample.bits, dict(state.sample.weights)),
        target=state.target, calibration=state.calibration,
    )  # fmt: skip


def same(one, other, exact=False):
    """Whether two contents are those of one memory: to rounding, or to the last bit."""
    near = dict(rtol=0, atol=0) if exact else dict(rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one["tensor"], other["tensor"], **near)
    assert {**one, "tensor": 0} == {**other, "tensor": 0}


# What ranks exchange


def exchanged(ranks):
    numbers = torch.arange(10.0) + 100 * ranks.rank
    complex_numbers = torch.complex(numbers, -numbers).view(2, 5).mT  # which is not contiguous
    return dict(
        gathered=ranks.gather({"rank": ranks.rank, "text": "x" * ranks.rank}),
        each=list(ranks.each("y" * 10**ranks.rank)),
        sum=ranks.sum_(numbers.clone()).tolist(),
        complex_sum=ranks.sum_(complex_numbers.clone(memory_format=torch.preserve_format)).mT.reshape(-1).real.tolist(),
        stacked=[each.tolist() for each in ranks.stack(torch.tensor([ranks.rank]))],
        first=ranks.of_first(ranks.rank),
        one=ranks.of_one(lambda: f"by {ranks.rank}"),
    )


@BOTH
def test_what_ranks_exchange_arrives_in_their_order(crew, count):
    total = [sum(i + 100 * rank for rank in range(count)) for i in range(10)]
    for given in crew(exchanged, ranks=count):
        assert given["gathered"] == [{"rank": rank, "text": "x" * rank} for rank in range(count)]
        assert given["each"] == ["y" * 10**rank for rank in range(count)]
        assert given["sum"] == given["complex_sum"] == total
        assert given["stacked"] == [[rank] for rank in range(count)]
        assert given["first"] == 0 and given["one"] == "by 0"


MESSAGES = [
    [None, True, 3, 2.5, -torch.inf, "text", "\ud800", b"\x00\xff", [], (), {}, set(), [()], [[]], [(1, 2), (3,)]],
    [b"one", b"", b"three"], [(b"path", 1.5), (b"", None)], {b"a": 1, (b"b", b"c"): [2.0]},
    {1: {"x"}, None: (b"y", [1])},
]  # fmt: skip
TENSORS = [torch.arange(6.0).view(2, 3).mT, torch.tensor(True), torch.empty(0, 3, dtype=torch.int64)]


class Hostile:
    """An object whose pickle runs code where it is read."""

    def __reduce__(self):
        return print, ("run",)


def without_pickles(ranks):
    """What ranks exchange, and what they do together, in processes that cannot pickle."""

    def refused(*_, **__):
        raise AssertionError("a pickle")

    before = pickle.loads, pickle.dumps
    pickle.loads = pickle.dumps = refused
    try:
        for message in MESSAGES:
            own = [ranks.rank, message]
            every = [[rank, message] for rank in range(ranks.size)]
            assert ranks.gather(own) == every == list(ranks.each(own)) == ranks.swap([own] * ranks.size)
            assert ranks.from_one(1, own) == every[1]
        for given, wanted in zip(ranks.gather(TENSORS)[1], TENSORS, strict=True):
            assert torch.equal(given, wanted) and given.dtype == wanted.dtype
        with pytest.raises(BadType, match="Hostile"):
            ranks.gather(Hostile())
        pairs = slice_of(ranks, PAIRS)
        memory = Memory(OSC(d=60, p=2, compact=True), keep_paths=True).distributed(ranks.group)
        memory.store(pairs)
        part = Memory.like(memory)
        part.store(pairs)
        right = memory.verify(PAIRS, joint=True).correct
        return memory.pairs, part.all_reduce(ranks.group).pairs, survey(pairs, ranks=ranks).pairs, right
    finally:
        pickle.loads, pickle.dumps = before


def test_ranks_exchange_no_pickles(crew):
    assert crew(without_pickles, ranks=2) == 2 * [(300, 300, 300, 300)]


def awkward_sum(ranks, piece):
    from carving.distributed import ranks as module

    before, module.SUM_CHUNK = module.SUM_CHUNK, piece
    try:
        numbers = torch.randn(1000, generator=torch.Generator().manual_seed(ranks.rank)) * 10.0 ** (4 * ranks.rank)
        return ranks.sum_(numbers)
    finally:
        module.SUM_CHUNK = before


def test_sums_are_rounded_once_whatever_the_pieces(crew):
    parts = [torch.randn(1000, generator=torch.Generator().manual_seed(rank)) * 10.0 ** (4 * rank) for rank in range(3)]
    wanted = ((parts[0].double() + parts[1]) + parts[2]).float()
    for piece in (1, 7, 1000):
        assert all(torch.equal(given, wanted) for given in crew(awkward_sum, piece))


def failing(ranks, who):
    def work():
        if ranks.rank == who:
            raise BadValue("a value was wanted")

    ranks.agreed(work)


def differing(ranks):
    ranks.check_same(version="1.0", scheme=f"OSC(d={20 + ranks.rank // 2})")


def test_what_fails_on_one_rank_fails_on_all_with_its_sentence(crew):
    kinds, words = zip(*crew.errors(failing, 1), strict=True)
    assert kinds == ("RankFailed", "BadValue", "RankFailed")
    assert words[0] == words[2] == "Rank 1 failed, and nothing was changed: a value was wanted"
    assert words[1] == "a value was wanted"


def test_ranks_that_differ_are_refused_at_the_start(crew):
    for kind, words in crew.errors(differing):
        assert kind == "BadValue"
        assert words.startswith("All ranks must have the same scheme, got OSC(d=21) on rank 2 and OSC(d=20) on rank 0")
    crew(differing, ranks=2)


def test_a_group_is_one_of_torch_distributed():
    with pytest.raises(BadType, match=r"torch\.distributed\.group\.WORLD"):
        Memory(OSC(d=12)).distributed("all")


# Storing


def stored(ranks, memory, pairs, **how):
    memory = pickle.loads(memory).distributed(ranks.group)
    total = memory.store(slice_of(ranks, pairs), **how)
    return total, contents(memory)


def one_process(memory, pairs, **how):
    return memory.store(pairs, **how), contents(memory)


SCHEMES = [OSC(d=24, p=3, compact=True), OSC(d=30, p=2), make("FHRR", d=64), make("MAP-B", d=64)]


@BOTH
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_many_ranks_store_what_one_process_does(crew, count, scheme, planned):
    memory = Memory(scheme, keep_paths=planned)
    if planned:
        memory = Memory._of(Reader(replace(memory._reader.state, target=Target(0.99, 1000, 100))))
    memory.store({"before": {"the": "others", "came": "value 3"}})
    copy = pickle.dumps(memory)
    total, wanted = one_process(pickle.loads(copy), PAIRS)
    first, *others = crew(stored, copy, PAIRS, ranks=count)
    assert first[0] == total == len(PAIRS)
    same(first[1], wanted)
    for other in others:
        same(other[1], first[1], exact=True)
    (_, again), *_ = crew(stored, copy, PAIRS, ranks=count)
    same(again, first[1], exact=True)


def test_pairs_that_come_again_on_another_rank_are_counted_as_such(crew):
    copy = pickle.dumps(Memory(OSC(d=30, p=2), keep_paths=True))
    twice = [*PAIRS[:40], *PAIRS[:40]]
    _, wanted = one_process(pickle.loads(copy), twice)
    assert set(wanted["sample"][1].values()) == {2.0}
    for _, given in crew(stored, copy, twice, ranks=2):
        same(given, wanted)


def test_weights_below_zero_take_out_on_all_ranks(crew):
    memory = Memory(OSC(d=30, p=2), keep_paths=True)
    memory.store(PAIRS)
    copy = pickle.dumps(memory)
    _, wanted = one_process(pickle.loads(copy), PAIRS[:100], weight=-1.0)
    for _, given in crew(taken_out, copy):
        same(given, wanted)
        assert len(given["paths"]) == 200


def taken_out(ranks, copy):
    return stored(ranks, copy, PAIRS[:100], weight=-1.0)


def test_a_rank_may_have_nothing_to_store_but_not_all_of_them(crew):
    copy = pickle.dumps(Memory(OSC(d=24, p=2)))
    for total, given in crew(stored, copy, PAIRS[:1]):
        assert total == 1 and given["values"] == ["value 0"]
    for kind, words in crew.errors(stored, copy, []):
        assert kind == "BadValue" and "at least one pair" in words


def stored_badly(ranks, copy):
    memory = pickle.loads(copy).distributed(ranks.group)
    before = contents(memory)
    bad = [*slice_of(ranks, PAIRS), *([(("a",), object())] if ranks.rank == 1 else [])]
    try:
        memory.store(bad)
    except Exception as error:
        same(contents(memory), before, exact=True)
        return str(error)


@BOTH
def test_a_bad_pair_on_one_rank_changes_nothing_on_any(crew, count):
    memory = Memory(OSC(d=24, p=2), keep_paths=True)
    memory.store(PAIRS[:10])
    words = crew(stored_badly, pickle.dumps(memory), ranks=count)
    assert words[0].startswith("Rank 1 failed, and nothing was changed: The value at ('a',)")
    assert words[1].startswith("The value at ('a',)")


def stored_unlike(ranks, copies):
    memory = pickle.loads(copies[ranks.rank % 2]).distributed(ranks.group)
    memory.store(slice_of(ranks, PAIRS))


def test_ranks_with_other_memories_are_refused(crew):
    one, other = Memory(OSC(d=24, p=2)), Memory(OSC(d=24, p=2, seed=1))
    for _, words in crew.errors(stored_unlike, [pickle.dumps(one), pickle.dumps(other)], ranks=2):
        assert words.startswith("All ranks must have the same scheme")
    fuller = Memory.like(one)
    one.store([(("a",), "b")])
    fuller.store([(("a",), "c")])
    for _, words in crew.errors(stored_unlike, [pickle.dumps(one), pickle.dumps(fuller)], ranks=2):
        assert words.startswith("All ranks must have the same contents")


def test_ranks_sample_many_pairs_as_one_process_does(crew):
    many = [((f"path {i}",), f"value {i % 7}") for i in range(3000)]
    copy = pickle.dumps(Memory(OSC(d=24, p=2)))
    _, wanted = one_process(pickle.loads(copy), many)
    assert wanted["sample"][0] > 0  # not all of them are sampled
    for _, given in crew(stored, copy, many, ranks=2):
        same(given, wanted)


def surveyed(ranks, pairs):
    return survey(slice_of(ranks, pairs), ranks=ranks)


@BOTH
def test_ranks_count_together_what_a_memory_is_planned_for(crew, count):
    pairs = [*PAIRS, *PAIRS[:30], *((path, "another value") for path, _ in PAIRS[::3])]
    wanted = survey(pairs)
    assert wanted.shared == {1: 200, 2: 100} and wanted.distinct == 400 and wanted.pairs == 430
    assert crew(surveyed, pairs, ranks=count) == [wanted] * count
    for _, words in crew.errors(surveyed, [], ranks=count):
        assert words.startswith("There must be at least one pair")


# Sums and files


def summed(ranks, keep_paths):
    memory = Memory(OSC(d=24, p=2), keep_paths=keep_paths)
    if ranks.rank != 1:
        memory.store(slice_of(ranks, PAIRS))
    return contents(memory.all_reduce(ranks.group))


@pytest.mark.parametrize("keep_paths", [False, True])
def test_the_memories_of_all_ranks_are_added_as_two_are(crew, keep_paths):
    parts = [Memory(OSC(d=24, p=2), keep_paths=keep_paths) for _ in range(2)]
    parts[0].store(PAIRS[:100])
    parts[1].store(PAIRS[200:])
    wanted = contents(parts[0] + parts[1])
    for given in crew(summed, keep_paths):
        same(given, wanted)


def saved_and_loaded(ranks, file):
    memory = Memory(OSC(d=24, p=2)).distributed(ranks.group)
    memory.store(slice_of(ranks, PAIRS))
    memory.save(file)
    return contents(Memory.load(file, group=ranks.group)), contents(memory)


def test_one_rank_writes_the_file_and_all_read_it(crew, tmp_path):
    for loaded, own in crew(saved_and_loaded, tmp_path / "m.safetensors"):
        torch.testing.assert_close(loaded["tensor"], own["tensor"], rtol=0, atol=0)
        assert loaded["values"] == own["values"] and loaded["counts"] == own["counts"]
    for kind, words in crew.errors(saved_and_loaded, tmp_path / "nowhere" / "m.safetensors"):
        assert kind in ("RankFailed", "FileNotFoundError") and "nowhere" in words


def loaded_apart(ranks, folder):
    Memory.load(folder / f"{ranks.rank}.safetensors", group=ranks.group)


def test_ranks_that_load_different_files_are_refused(crew, tmp_path):
    for rank in range(2):
        Memory(OSC(d=24, p=2, seed=rank)).save(tmp_path / f"{rank}.safetensors")
    for _, words in crew.errors(loaded_apart, tmp_path, ranks=2):
        assert words.startswith("All ranks must have the same file")


def test_alone_there_is_nothing_to_agree_on():
    ranks = Ranks.alone()
    assert ranks.agreed(lambda: 3) == 3 and list(ranks.each("x")) == ["x"]
    tensor = torch.ones(3)
    assert ranks.sum_(tensor) is tensor and ranks.stack(tensor) == [tensor]


# Heads of labels behind networks that are trained over ranks


def _stepped(ranks, options, seed=0):
    """The gradients of this rank's half of the points, averaged over both."""
    head = OSCHead(7, d=18, **options)
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, head.width))
    points, own = torch.randn(4, 12), [[0, 3], [5], [1, 2, 6, 4], [3]]
    if ranks is not None:
        half = slice(2 * ranks.rank, 2 * ranks.rank + 2)
        points, own = points[half], own[half]
        network = torch.nn.parallel.DistributedDataParallel(network, process_group=ranks.group)
    head.loss(network(points), own).backward()
    return [weight.grad.tolist() for weight in network.parameters()]


@pytest.mark.parametrize("options", [{}, dict(dictionary=0)])
def test_two_ranks_have_the_gradients_of_all_points(crew, options):
    first, second = crew(_stepped, options, ranks=2)
    assert first == second
    for mine, theirs in zip(_stepped(None, options), first, strict=True):
        assert torch.allclose(torch.tensor(mine), torch.tensor(theirs), atol=1e-6, rtol=1e-4)

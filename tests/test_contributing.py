"""The examples of CONTRIBUTING.md, a scheme, a backend and a format, obey the laws of those that are built in."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from carving import OSC, Memory, formats, schemes
from carving.errors import BadValue
from carving.memory.backends import from_bytes, to_bytes
from carving.storage.tensorfile import BadFile

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()


def code(title):
    """The example of a section."""
    section = TEXT.split(f"\n## {title}\n")[1]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)


def defined(title, until):
    """What the example defines before it begins to use it."""
    names = {"__name__": "example"}
    exec(code(title).partition(until)[0], names)
    return names


@pytest.fixture
def shuffled(monkeypatch):
    monkeypatch.setattr(schemes, "_MAKERS", dict(schemes._MAKERS))
    return defined("A new scheme", "\nmemory = ")["Shuffled"](16)


def test_contexts_of_a_new_scheme_have_batches_without_saying_how(shuffled):
    contexts, fillers = shuffled.contexts([(i,) for i in range(6)]), shuffled.fillers(range(6))
    batch = contexts.reshape(2, 3)
    assert batch.shape == (2, 3)
    traces = shuffled.trace(batch, fillers.reshape(2, 3, -1))
    assert_close(traces[1], shuffled.trace(contexts[3:], fillers[3:]))
    assert_close(shuffled.score(traces, batch, fillers)[0], shuffled.score(traces[0], contexts[:3], fillers))


@pytest.fixture
def in_sqlite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return defined("A storage backend", "\nmemory = ")["InSQLite"]


def test_a_backend_of_ones_own_takes_every_change(in_sqlite):
    backend, other = in_sqlite("file.db", "animals", OSC(40, 3)), in_sqlite("file.db", "animals")
    memory, elsewhere = Memory.from_backend(backend), Memory.from_backend(other)
    facts = {"dog": {"says": "woof"}, "cat": {"says": "meow"}}
    assert memory.store(facts) == 2
    assert elsewhere.pairs == 0
    other.refresh()
    assert elsewhere.pairs == 2
    assert not elsewhere.forget({"dog": {"says": "woof"}})
    memory.store({"cow": {"says": "moo"}})
    assert not memory.recall("dog", "says").found
    assert memory.recall("cow", "says").value == "moo"
    memory.tensor = 2 * memory.tensor
    other.refresh()
    assert_close(elsewhere.tensor, memory.tensor)
    assert elsewhere.pairs == memory.pairs == 2
    memory.save("copy.safetensors")
    assert_close(Memory.load("copy.safetensors").tensor, memory.tensor)


def test_a_change_that_fails_leaves_a_backend_of_ones_own_as_it_was(in_sqlite):
    memory = Memory.from_backend(in_sqlite("file.db", "animals", OSC(40, 3)))
    memory.store({"dog": {"says": "woof"}})
    before = memory.tensor.clone()

    def ill():
        yield ("cat", "says"), "meow"
        raise RuntimeError("ill")

    with pytest.raises(RuntimeError, match="ill"):
        memory.store(ill())
    assert torch.equal(memory.tensor, before)
    assert memory.pairs == Memory.from_backend(in_sqlite("file.db", "animals")).pairs == 1
    memory.store({"cat": {"says": "meow"}})
    assert memory.pairs == 2


def test_a_state_is_the_bytes_of_its_file(tmp_path):
    memory = Memory(OSC(40, 3), keep_paths=True)
    memory.store({"dog": {"says": "woof"}})
    memory.save(tmp_path / "file")
    data = to_bytes(memory._reader)
    assert data == (tmp_path / "file").read_bytes()
    again = from_bytes(data)
    assert torch.equal(again.tensor, memory.tensor)
    assert again.pairs == 1
    for bad in (data[:-1], data[:100], b"", data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(BadFile, match=r"^The state (is|was) "):
            from_bytes(bad)


@pytest.fixture(scope="module")
def ini():
    names = defined("A file format", "\nwrite(")
    yield names
    del formats.FORMATS["ini"]


@given(
    st.lists(st.tuples(st.lists(st.text(" =[];\na\r\x85"), max_size=3).map(tuple), st.text(" =[];\na") | st.integers()))
)
def test_a_format_of_ones_own_reads_what_it_writes_or_refuses_it(ini, given):
    try:
        text = "".join(ini["show_ini"](given))
    except BadValue:
        return
    lines = enumerate(text.split("\n"), 1)
    assert list(ini["read_ini"](lines, pytest.fail)) == given


def test_a_format_of_ones_own_counts_bad_lines(ini, tmp_path):
    file = tmp_path / "facts.ini"
    file.write_text("; x = y\n[dog]\nsays = woof\nwhat\n")
    with pytest.raises(formats.BadLineError, match=r"facts\.ini, line 4: expected \[section\]"):
        list(formats.pairs(file))
    found = formats.pairs(file, skip_bad=True)
    assert list(found) == [(("dog", "says"), "woof")]
    assert found.bad == 1


def test_write_refuses_pairs_where_the_file_belongs():
    with pytest.raises(TypeError, match=r"target must be a file name or a text stream, got \["):
        formats.write("facts.tsv", [(("dog", "is a"), "animal")])


def test_commands_import_what_packages_register(tmp_path):
    (tmp_path / "ini.py").write_text(code("A file format").partition("\nwrite(")[0])
    folder = tmp_path / "ini-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ini\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[carving.plugins]\nini = ini\n")
    (tmp_path / "facts.ini").write_text("[dog]\nsays = woof\n")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from carving.cli import app; app()"
    command = [sys.executable, "-c", start, "store", tmp_path / "facts.safetensors", tmp_path / "facts.ini"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Memory.load(tmp_path / "facts.safetensors").recall("dog", "says").value == "woof"

"""A campaign against the readers: mutated files of every format, compressed ones and bombs included.

    python tests/campaign/readers.py --tries 100000 --out readers.json
    python tests/campaign/readers.py --atheris 120        # coverage-guided, seconds a reader, if atheris is installed

A try fails if a reader raises anything but what a person can mend, takes longer than `SECONDS`, or more than `ROOM`.
"""

import argparse
import bz2
import contextlib
import gzip
import json
import lzma
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table

from carving import formats
from carving.errors import UserError
from carving.lab.rows import read_rows
from carving.labels.data import read
from carving.labels.text import read_split

SECONDS = 20  # of a try, on a machine that others use as well
ROOM = 2 << 30  # bytes that a process may take beyond what it had
PACKERS = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress}

ROW = '{"setting": {"a": 1}, "trial": 0, "measured": {"v": 1.5}, "seconds": 1, "versions": {"carving": "1"}}\n'
ARFF = "@relation 'x: -C 2'\n% c\n@attribute y1 {0,1}\n@attribute 'y 2' {no,yes}\n@attribute f numeric\n@data\n"
TOKEN = "# sent_id = a\n1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2-3\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"

# A file of each kind by its ending: what is mutated, and what is put into it besides.
SAMPLES: dict[str, tuple[str, str]] = {
    ".json": ('{"a": [1, {"b": null}, 1.5e3, true],\n "c": {"": "\\ud800x"}}', '[ ] { } " : , 0 1e999 NaN \\u0000 -'),
    ".jsonl": ('{"a": 1}\n\n[true, "x"]\n"x"\n', '[ ] { } " : , 0 1e999 NaN \\u null [[[[ '),
    ".tsv": ("dog\tis\tanimal\ncat\tis\tanimal\n", "\t \t\t \n"),
    ".csv": ('name;age\n"A ""b""";7\n"B\nC";\n', '" "" ; , \t \n "\n",'),
    ".conllu": (TOKEN, "# sent_id = 1 1-2 1.1 _ \t \n\n"),
    ".mrg": ("( (S (NP dogs)\n     (VP b\\ ark)))\n(X)\n", "( ) \\ \\e (( )) \\("),
    ".txt": ("2 4 3\n0,2 1:0.5 3:2\n 0:1 2:-3e-1\n", ", : 1:1 # q nan 1e999 -1 2147483648"),
    ".split": ("1 2\n2 1\n", "0 3 -1 1_0"),
    ".arff": (ARFF + "1,yes,0.5\n{0 1,2 3}\n", "@data @attribute { } , ' \" \\ % ? {0 numeric"),
    ".xml": (
        '<?xml version="1.0" encoding="utf-8"?>\n<labels><label name="y1"/></labels>',
        "<label> </label> &amp; <!ENTITY utf-16 utf-7 <!DOCTYPE x [ ]>",
    ),
    ".rows": (ROW * 2, '[ ] { } " measured 1e999 null'),
}
ODD = [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\x1b[31m", "\u2028\ud7ff\u202e".encode(), b" ", b"9" * 5_000]


def target(folder: Path, kind: str, packing: str, content: bytes) -> Callable[[], object]:
    """What reads such a file, which is written for it."""
    file = folder / f"file{kind}{packing}"
    if kind in (".split", ".xml"):
        file = folder / f"file{kind}"
    if kind == ".rows":
        file = folder / ("file.jsonl.gz" if packing else "file.jsonl")
        (folder / "file.jsonl").unlink(missing_ok=True)
    file.write_bytes(content)
    if kind == ".split":
        return lambda: read_split(file, 2)
    if kind == ".rows":
        return lambda: read_rows(folder / "file.jsonl")
    if kind == ".xml":
        (folder / "data.arff").write_text(ARFF + "1,yes,0.5\n")
        return lambda: read(folder / "data.arff", labels=file)
    if kind in (".txt", ".arff"):
        return lambda: read(file)
    return lambda: sum(1 for _ in formats.pairs(file, skip_bad=len(content) % 2 == 0))


# Mutations


def mutated(content: bytes, tokens: list[bytes], chance: random.Random) -> bytes:
    """The content after a few changes: bytes, slices, tokens, runs."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice((1, 2, 4, 10, 100)))
        match chance.randrange(8):
            case 0 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                del changed[at:end]
            case 2:
                changed[at:at] = changed[at:end] * chance.choice((1, 2, 30))
            case 3:
                changed[at:end] = chance.choice(tokens)
            case 4:
                changed[at:at] = chance.choice(ODD)
            case 5:
                changed[at:at] = chance.choice(tokens) * chance.choice((2, 50, 2_000))
            case 6 if chance.random() < 0.05:
                changed[at:at] = chance.choice([b"(a ", b"[[", b'{"a":', b" ", b"a", b"[],"]) * 100_000
            case 7 if chance.random() < 0.2:
                del changed[at:]
    return bytes(changed)


def case(kind: str, chance: random.Random) -> tuple[str, bytes]:
    """How a mutated file is packed, and its bytes; of some archives the bytes themselves are mutated, too."""
    text, tokens = SAMPLES[kind]
    content = mutated(text.encode(errors="surrogatepass"), [token.encode() for token in tokens.split(" ")], chance)
    packing = chance.choice(("", "", "", "", "", *PACKERS))
    if kind in (".split", ".xml") or len(content) > 50_000:
        packing = ""
    elif kind == ".rows":
        packing = chance.choice(("", ".gz"))
    packed = PACKERS[packing](content)
    return packing, mutated(packed, ODD, chance) if packing and chance.random() < 0.7 else packed


def bombs(kind: str) -> Iterator[tuple[str, bytes]]:
    """Archives of some kilobytes that hold gigabytes: packing and bytes."""
    units = {
        ".json": b"0," * 2_000_000,
        ".jsonl": b"[[[[" * 1_000_000,
        ".tsv": b"a" * 4_000_000,
        ".csv": b'"\n",' * 1_000_000,
        ".conllu": b"#" * 4_000_000,
        ".mrg": b"((((\n" * 800_000,
        ".txt": b"1 " * 2_000_000,
        ".arff": b"%" * 4_000_000,
        ".rows": b" " * 4_000_000,
    }
    if kind in units:
        for packing in (".gz",) if kind == ".rows" else (".xz", ".gz", ".bz2"):
            yield packing, PACKERS[packing](units[kind]) * 500


# Tries


class TooSlowError(BaseException):
    """A try that takes too long; no reader may catch it."""


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """No more room than is stated, and an alarm for what takes too long."""

    def stop(*_: object) -> None:
        raise TooSlowError

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    before, alarm = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, stop)
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, alarm)


def outcome(run: Callable[[], object]) -> str:
    """`read` or `refused`; anything else is a failure, and says which."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        run()
    except UserError as error:
        return "refused" if len(str(error)) < 2_000 else f"an error of {len(str(error))} characters"
    except TooSlowError:
        return "too slow"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read"


def campaign(tries: int, seed: int = 0, with_bombs: bool = True, keep: Path | None = None) -> list[dict[str, object]]:
    """So many tries over all kinds of files, as a row a kind; what failed is kept in a folder, if one is given."""
    rows = []
    with tempfile.TemporaryDirectory() as name, limits():
        for kind in SAMPLES:
            chance = random.Random(f"{seed} {kind}")
            row: dict[str, object] = {"kind": kind, "tried": 0, "read": 0, "refused": 0, "failed": 0, "failures": {}}
            began, slowest = time.monotonic(), 0.0
            cases = (case(kind, chance) for _ in range(tries // len(SAMPLES)))
            for packing, content in chain(cases, bombs(kind) if with_bombs else ()):
                start = time.monotonic()
                result = outcome(target(Path(name), kind, packing, content))
                slowest = max(slowest, time.monotonic() - start)
                count(row, result)
                if keep is not None and result not in ("read", "refused"):
                    (keep / f"{row['tried']}{kind}{packing}").write_bytes(content)
            rows.append(row | {"seconds": round(time.monotonic() - began, 1), "slowest": round(slowest, 2)})
    return rows


def count(row: dict, result: str) -> None:
    """Add a result to a row."""
    row["tried"] += 1
    row[result if result in ("read", "refused") else "failed"] += 1
    if result not in ("read", "refused"):
        row["failures"][result] = row["failures"].get(result, 0) + 1


# Guided by coverage


def fuzz(kind: str, seconds: int) -> None:
    """Let atheris look for an input that a reader of this kind fails at; it ends the process."""
    import atheris

    rooms = ("carving.formats", "carving.labels", "carving.lab.rows")
    for name in [name for name in sys.modules if name.startswith(rooms)]:
        del sys.modules[name]
    with atheris.instrument_imports(include=list(rooms)):
        own, rows, data, text = map(import_module, (rooms[0], rooms[2], "carving.labels.data", "carving.labels.text"))
    globals().update(formats=own, read_rows=rows.read_rows, read=data.read, read_split=text.read_split)
    folder = Path(tempfile.mkdtemp())

    def one(content: bytes) -> None:
        result = outcome(target(folder, kind, "", content))
        if result not in ("read", "refused"):
            raise AssertionError(result)

    corpus = Path(tempfile.mkdtemp())
    (corpus / "sample").write_text(SAMPLES[kind][0])
    options = [f"-max_total_time={seconds}", "-max_len=4000", f"-artifact_prefix={folder}/", str(corpus)]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def guided(seconds: int) -> list[dict[str, object]]:
    """So many seconds of atheris for each kind, each in a process of its own."""
    rows = []
    for kind in SAMPLES:
        command = [sys.executable, __file__, "--fuzz", kind, "--atheris", str(seconds)]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace")
        runs = re.findall(r"^#(\d+)", run.stderr, re.MULTILINE)
        failure = re.findall(r"AssertionError: (.*)", run.stderr) or ([run.stderr[-300:]] if run.returncode else [])
        row: dict[str, object] = {"kind": kind, "tried": int(runs[-1]) if runs else 0, "failed": len(failure)}
        rows.append(row | {"failures": dict.fromkeys(failure, 1), "seconds": seconds})
    return rows


def show(rows: list[dict[str, object]], title: str) -> None:
    """A table of what was tried."""
    table = Table(title=title)
    names = [name for name in rows[0] if name != "failures"]
    for name in names:
        table.add_column(name, justify="left" if name == "kind" else "right")
    for row in [*rows, {n: sum(r[n] for r in rows) if isinstance(rows[0][n], int) else "" for n in names}]:
        table.add_row(*(f"{row[n]:,}" if isinstance(row[n], int | float) else row[n] for n in names))
    Console().print(table)
    for row in rows:
        for failure, times in row["failures"].items():
            print(f"{row['kind']}: {times} times {failure!r}")


def main() -> None:
    """The campaign; exit status 1 if anything failed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tries", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--atheris", type=int, default=0, help="seconds a reader, guided by coverage")
    arguments.add_argument("--fuzz", help=argparse.SUPPRESS)
    arguments.add_argument("--keep", type=Path, help="a folder for the inputs that failed")
    arguments.add_argument("--out", type=Path, help="a file for the figures as JSON")
    given = arguments.parse_args()
    if given.fuzz:
        fuzz(given.fuzz, given.atheris)
        return
    answer = {"mutated": campaign(given.tries, given.seed, keep=given.keep)}
    show(answer["mutated"], "Mutated files and bombs")
    if given.atheris:
        answer["guided"] = guided(given.atheris)
        show(answer["guided"], "Guided by coverage")
    answer["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory {answer['peak_bytes'] >> 20:,} MiB")
    if given.out:
        given.out.write_text(json.dumps(answer, indent=1) + "\n")
    sys.exit(any(row["failed"] for rows in (answer["mutated"], answer.get("guided", [])) for row in rows))


if __name__ == "__main__":
    main()

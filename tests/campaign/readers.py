"""A campaign against the readers: mutated files of every format, compressed ones and bombs included.

    PYTHONPATH=tests python -m campaign.readers --tries 100000 --out readers.json

A try fails if a reader raises anything but what a person can mend, takes longer than `SECONDS`, or more than `ROOM`.
"""

import bz2
import gzip
import lzma
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from campaign import common
from campaign.limits import limits, timed

from carving import formats
from carving.errors import UserError
from carving.lab.rows import read_rows
from carving.multilabel.data import read
from carving.multilabel.text import read_split

SECONDS = 20  # of the processor, for a try
ROOM = 2 << 30  # bytes that a process may take beyond what it had
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
}

ROW = '{"setting": {"a": 1}, "trial": 0, "measured": {"v": 1.5}, "seconds": 1, "versions": {"carving": "1"}}\n'
HEAD = "@relation 'x: -C 2'\n% c\n@attribute y1 {0,1}\n@attribute 'y 2' {no,yes}\n"
ARFF = HEAD + "@attribute f numeric\n@data\n"
WORD = "1\tDogs\tdog\tNOUN\t_\tNum=Plur\t2\tnsubj\t_\tA=b\n"
TOKEN = f"# sent_id = a\n{WORD}2-3\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"


class Sample(NamedTuple):
    """Files of a kind: what is mutated, what is put into it besides, and which archives it may lie in."""

    texts: tuple[str, ...]
    tokens: str
    packings: tuple[str, ...] = tuple(PACKERS)


SAMPLES: dict[str, Sample] = {
    ".json": Sample(
        ('{"a": [1, {"b": null}, 1.5e3, true],\n "c": {"": "\\ud800x"}}', '[{"k": "v", "l": [[], {}]}, "s", -0.0]'),
        '[ ] { } " : , 0 1e999 NaN \\u0000 - {"a":1,"a":2}',
    ),
    ".jsonl": Sample(
        ('{"a": 1}\n\n[true, "x"]\n"x"\n', '{"a":{"b":[{}]}}\r\n7\n'), '[ ] { } " : , 1e999 NaN \\u null [[[['
    ),
    ".pairs": Sample(
        (
            '[["a", 1, []], "x"]\n\n[["a"], {"bytes": "00ff"}]\n',
            '[["\\ud800", null], {"text": "eda080"}]\r\n[[1.5], {}]',
        ),
        '[ ] { } " : , {"bytes":"0"} {"text":"ff"} {} [[]] 1e999 NaN null',
    ),
    ".tsv": Sample(("dog\tis\tanimal\ncat\tis\tanimal\n", "a\tb\tc\r\nd\te\tf"), "\t \t\t \n \\t \r"),
    ".csv": Sample(
        ('name;age\n"A ""b""";7\n"B\nC";\n', "name,x,y\r\n1,2,3\r\n4,5,6\r\n", "name\tb\na\tc\n"),
        '" "" ; , \t \n "\n", name',
    ),
    ".conllu": Sample(
        (TOKEN, f"{WORD}2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n# sent_id = b\n# c\n{WORD}\n"),
        "# sent_id = 1 1-2 1.1 _ \t \n\n 0",
    ),
    ".mrg": Sample(
        ("( (S (NP dogs)\n     (VP b\\ ark)))\n(X)\n", "(S (NP (DT the) (NN dog)))\n"), "( ) \\ \\e (( )) \\( () ( )"
    ),
    ".txt": Sample(
        ("2 4 3\n0,2 1:0.5 3:2\n 0:1 2:-3e-1\n", "1 2147483647 1\n0 5:1\n"), ", : 1:1 # q nan 1e999 -1 2147483648 0:0"
    ),
    ".two": Sample(("2 4\n0:1 3:1\n1:1\n", "2 9\n0:0\n8:2.5\n"), ", : 1:1 # q nan 1e999 -1 2147483648", ("",)),
    ".split": Sample(("1 2\n2 1\n", "2\n\n1\n"), "0 3 -1 1_0 1.0 \u0663", ("",)),
    ".arff": Sample(
        (
            ARFF + "1,yes,0.5\n{0 1,2 3}\n",
            HEAD + '@ATTRIBUTE "q\\"" real\n@attribute d {0,1.0,2}\n@DATA\n1,no,-1e3,2\n0,yes,1,0\n',
        ),
        "@data @attribute { } , ' \" \\ % ? {0 numeric",
    ),
    ".xml": Sample(
        (
            '<?xml version="1.0" encoding="utf-8"?>\n<labels><label name="y1"/></labels>',
            '<labels xmlns="http://m"><label name="y1"><label name="y 2"></label></label></labels>',
        ),
        "<label> </label> &amp; <!ENTITY utf-16 utf-7 <!DOCTYPE x [ ]>",
        ("",),
    ),
    ".rows": Sample((ROW * 2,), '[ ] { } " measured 1e999 null', ("", ".gz")),
}
ODD = [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\x1b[31m", "\u2028\ud7ff\u202e".encode(), b" ", b"9" * 5_000]
NUMBERS = [
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"2147483648",
    b"18446744073709551616",
    b"1e-400",
    b"0x10",
    b"1_0",
    b"9" * 400,
]
LONG = [b"(a ", b"[[", b'{"a":', b" ", b"a", b"[],", b"<label>", b'"', b"\\", b"1 ", b"\n", b","]


def target(folder: Path, kind: str, packing: str, content: bytes) -> Callable[[], object]:
    """What reads such a file, which is written for it."""
    file, odd = folder / f"file{kind}{packing}", len(content) % 3
    if kind == ".rows":
        file = folder / ("file.jsonl.gz" if packing else "file.jsonl")
        (folder / "file.jsonl").unlink(missing_ok=True)
    elif kind == ".two":
        file = folder / "labels.txt"
    file.write_bytes(content)
    if kind == ".split":
        return lambda: read_split(file, 2, column=odd // 2)
    if kind == ".rows":
        return lambda: read_rows(folder / "file.jsonl")
    if kind == ".xml":
        (folder / "data.arff").write_text(ARFF + "1,yes,0.5\n")
        return lambda: read(folder / "data.arff", labels=file)
    if kind == ".two":
        (folder / "data.txt").write_text("2 4\n0:1 3:1\n1:1\n")
        return lambda: read(folder / "data.txt", labels=file)
    if kind in (".txt", ".arff"):
        return lambda: read(file, labels=odd if odd and kind == ".arff" else None)
    options: dict[str, object] = {".csv": dict(key="name"), ".conllu": dict(fields=["form", "head", "feats"])}.get(
        kind, {}
    )
    return lambda: sum(1 for _ in formats.pairs(file, skip_bad=odd == 0, **(options if odd == 1 else {})))


# Mutations


def mutated(content: bytes, tokens: list[bytes], chance: random.Random) -> bytes:
    """The content after a few changes: bytes, slices, lines, numbers, tokens, runs."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice((1, 2, 4, 10, 100)))
        match chance.randrange(10):
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
                changed[at:at] = chance.choice(LONG) * 100_000
            case 7 if chance.random() < 0.2:
                del changed[at:]
            case 8:
                changed = bytearray(shuffled(bytes(changed), chance))
            case 9:
                changed = bytearray(renumbered(bytes(changed), chance))
    return bytes(changed)


def shuffled(content: bytes, chance: random.Random) -> bytes:
    """The content with a line in the place of another, beside it, or gone."""
    lines = content.splitlines(keepends=True) or [b""]
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(one, lines[other])
        case 2:
            del lines[one]
    return b"".join(lines)


def renumbered(content: bytes, chance: random.Random) -> bytes:
    """The content with one of its numbers replaced by another, or by what looks like one."""
    numbers = list(re.finditer(rb"[0-9]+", content))
    if not numbers:
        return content
    found = chance.choice(numbers)
    return content[: found.start()] + chance.choice(NUMBERS) + content[found.end() :]


def case(kind: str, chance: random.Random) -> tuple[str, bytes]:
    """How a mutated file is packed, and its bytes; of some archives the bytes themselves are mutated, too."""
    sample = SAMPLES[kind]
    text = chance.choice(sample.texts)
    if chance.random() < 0.05:  # something of another kind
        text = chance.choice(SAMPLES[chance.choice(list(SAMPLES))].texts)
    content = mutated(
        text.encode(errors="surrogatepass"), [token.encode() for token in sample.tokens.split(" ")], chance
    )
    packing = chance.choice(sample.packings) if chance.random() < 0.4 and len(content) <= 50_000 else ""
    packed = PACKERS[packing](content)
    return packing, mutated(packed, ODD, chance) if packing and chance.random() < 0.7 else packed


BOMBS = {
    ".json": b"0," * 2_000_000,
    ".jsonl": b"[[[[" * 1_000_000,
    ".pairs": b"[[[[" * 1_000_000,
    ".tsv": b"a" * 4_000_000,
    ".csv": b'"\n",' * 1_000_000,
    ".conllu": b"#" * 4_000_000,
    ".mrg": b"((((\n" * 800_000,
    ".txt": b"1 " * 2_000_000,
    ".arff": b"%" * 4_000_000,
    ".rows": b" " * 4_000_000,
}  # each of which is packed hundreds of times over
ENTITIES = b"".join(b'<!ENTITY a%d "%b">' % (i + 1, b"&a%d;" % i * 10) for i in range(12))
LAUGHS = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">%b]><labels><label name="&a12;"/></labels>' % ENTITIES


def bombs(kind: str) -> Iterator[tuple[str, bytes]]:
    """Files of some kilobytes that hold gigabytes: packing and bytes."""
    if kind == ".xml":
        yield "", LAUGHS
    if kind in BOMBS:
        for packing in SAMPLES[kind].packings[1:]:
            yield packing, PACKERS[packing](BOMBS[kind]) * 500


# Tries


def outcome(run: Callable[[], object]) -> str:
    """`read` or `refused`; anything else is a failure, and says which."""
    try:
        run()
    except UserError as error:
        return "refused" if len(str(error)) < 2_000 else f"an error of {len(str(error))} characters"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "read"


def attack(kind: str, tries: int, chance: random.Random, at: Path, with_bombs: bool = True) -> common.Row:
    """So many files of a kind, and its bombs."""
    counts, failures, slowest, tried = dict(read=0, refused=0), list[str](), 0.0, 0
    cases = (case(kind, chance) for _ in range(tries))
    for packing, content in chain(cases, bombs(kind) if with_bombs else ()):
        run = target(at, kind, packing, content)
        begun = time.process_time()
        came = timed(lambda run=run: outcome(run), SECONDS)
        slowest, tried = max(slowest, time.process_time() - begun), tried + 1
        if came in counts:
            counts[came] += 1
        else:
            failures.append(f"{came}: {content[:200]!r}")
    return common.row(kind, tried, failures, **counts, slowest=round(slowest, 2))


def campaign(tries: int, seed: int = 0, kinds: list[str] | None = None, with_bombs: bool = True) -> list[common.Row]:
    """So many tries over all kinds of files."""
    kinds = kinds or list(SAMPLES)
    with tempfile.TemporaryDirectory() as name, limits(ROOM):
        each = common.share(tries, kinds)
        return [attack(kind, each, random.Random(f"{seed} {kind}"), Path(name), with_bombs) for kind in kinds]


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 100_000).parse_args()
    common.ends("Mutated input and bombs", lambda: campaign(given.tries, given.seed, given.only), given.out)

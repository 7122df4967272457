"""A campaign guided by coverage: atheris looks for an input at which a reader fails.

    PYTHONPATH=tests python -m campaign.guided --seconds 120 --out guided.json     # so many for each reader

atheris changes files that lead to new places in the code. A try fails as in `readers.py`. Each reader has a process
of its own, since atheris ends it. Without atheris (the extra `campaign`), nothing is tried, which is told and no
success.
"""

import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from campaign import common, readers
from campaign.limits import timed

ROOMS = (
    "carving.formats",
    "carving.multilabel",
    "carving.lab.rows",
    "carving.storage.tensorfile",
    "carving.storage.memoryfile",
)
LONGEST = 4_000  # bytes of an input


def fuzz(kind: str, seconds: int, number: int) -> None:
    """Let atheris look for an input that a reader of this kind fails at; it ends the process."""
    import atheris

    for name in [name for name in sys.modules if name.startswith(ROOMS)]:
        del sys.modules[name]
    with atheris.instrument_imports(include=list(ROOMS)):
        for name in ("carving.multilabel.data", "carving.multilabel.text", "carving.lab.rows", "carving.formats"):
            import_module(name)
    readers.formats = sys.modules["carving.formats"]
    readers.read = sys.modules["carving.multilabel.data"].read
    readers.read_split = sys.modules["carving.multilabel.text"].read_split
    readers.read_rows = sys.modules["carving.lab.rows"].read_rows
    folder, corpus = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    words = folder / "words"
    for place, text in enumerate(readers.SAMPLES[kind].texts):
        (corpus / str(place)).write_bytes(text.encode(errors="surrogatepass"))
    tokens = {token.encode() for token in readers.SAMPLES[kind].tokens.split(" ") if token}
    words.write_text("".join('"{}"\n'.format("".join(f"\\x{byte:02x}" for byte in token)) for token in sorted(tokens)))

    def one(content: bytes) -> None:
        run = readers.target(folder, kind, "", content)
        came = timed(lambda: readers.outcome(run), readers.SECONDS)
        if came not in ("read", "refused"):
            raise AssertionError(f"{came}: {content[:200]!r}")

    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-artifact_prefix={folder}/", f"-dict={words}"]
    atheris.Setup([sys.argv[0], *options, f"-seed={number + 1}", str(corpus)], one)
    atheris.Fuzz()


def attack(kind: str, seconds: int, number: int) -> common.Row:
    """The row of a kind, fuzzed in another process."""
    command = [sys.executable, "-m", "campaign.guided", "--fuzz", kind]
    command += ["--seconds", str(seconds), "--seed", str(number)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    told = re.findall(r"^#(\d+)\s.*?cov: (\d+)", run.stderr, re.MULTILINE)
    failures = re.findall(r"AssertionError: (.*)", run.stderr) or ([run.stderr[-500:]] if run.returncode else [])
    tried, covered = map(int, told[-1]) if told else (0, 0)
    return common.row(kind, tried, failures, covered=covered, seconds=seconds)


def campaign(seconds: int, number: int = 0, kinds: list[str] | None = None) -> list[common.Row]:
    """So many seconds for each reader."""
    if find_spec("atheris") is None:
        print("atheris is not there: pip install carving[campaign]")
        return [common.row("all readers", 0, [])]
    return [attack(kind, seconds, number) for kind in kinds or readers.SAMPLES]


if __name__ == "__main__":
    parser = common.options(__doc__, "seconds", 120)
    parser.add_argument("--fuzz", choices=readers.SAMPLES, help="only this one, in this process")
    given = parser.parse_args()
    if given.fuzz:
        fuzz(given.fuzz, given.seconds, given.seed)
    common.ends("Guided by coverage", lambda: campaign(given.seconds, given.seed, given.only), given.out)

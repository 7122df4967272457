"""The words of the project: messages, help, docstrings and the page use one word a thing, and none that it replaced."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

import carving
from carving.cli import app

ROOT = Path(carving.__file__).parent

# Words that were replaced, with what to say instead.
GONE = {
    r"\btake a copy\b": "restore it from a backup",
    r"\b(is|are|was|were) told\b": "is reported, is passed",
    r"\bso (many|much|few)\b": "the name of the number",
    r"\b(leaf|leaves)\b(?! (out|open|it|them|all|the|every|nothing|a|negative|MEMORY|less|no)\b)": "value",
    r"\bunseal|\bseal(s|ed|ing)?\b": "quantize, quantized",
    r"\bstrangers?\b": "pairs that were not found, unknown labels",
    r"\bwish(ed|es)?\b": "requested, requirements",
    r"\b(asked|asks?|asking) (all )?together\b": "decoded jointly",
    r"\bcom(e|es|ing) to rest\b|\bcame to rest\b": "converge",
    r"\bin company\b": "padded",
    r"\bheld back\b": "in the validation set",
    r"\brankers?\b": "rerankers",
    r"\babsence\b": "prior_empty, empty",
    r"\bwhat is none\b": "what it is",
    r"\btold apart\b": "distinguished",
    r"\bthe same as\b.{0,20}\bthose\b": "a noun",
    r"\bin the mean\b": "on average",
    r"\bis damaged\b": "is corrupt",
    r"\b(recognis|normalis|quantis|factoris|neighbour|colour|behaviour|labelled)": "American spelling",
}
STARTS = re.compile(
    r"(The same|Those|That of|What|How (much|many|surely|well)|So )\b"
)  # of first lines that cannot stand alone
EXCEPTIONS = (
    "Tree.add", "Tree.remove", "Tree.get", "Tree",  # a tree has leaves
    "formats/brackets.py", "structures/graphs.py",
)  # fmt: skip
OLD_NAMES = {
    "leaf", "leaves", "among", "absence", "probe", "room", "goal", "rankers", "recognise", "factorise", "normalise",
    "neighbours", "trunk", "drop", "rate", "batch", "decay", "until", "wishes", "strangers", "quantise", "unlabelled",
}  # fmt: skip


def gone(text):
    """What a text says in words that were replaced."""
    return [f"{match.group()!r} ({better})" for word, better in GONE.items() for match in re.finditer(word, text, re.I)]


def strings(node):
    """The constant texts below a node, in f-strings too."""
    parts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return " ".join(parts)


def messages(tree):
    """The errors that a module raises, the warnings that it gives and the lines that it prints."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.lineno, strings(node.exc)
        called = node.func if isinstance(node, ast.Call) else None
        name = getattr(called, "attr", getattr(called, "id", ""))
        if name in ("warn", "write_line", "absent", "refused", "echo") or (
            name == "print" and "errors" in ast.dump(called)
        ):
            yield node.lineno, strings(node)


FILES = sorted(str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py"))


@pytest.mark.parametrize("file", FILES)
def test_messages_use_the_words_of_the_glossary(file):
    if file in EXCEPTIONS:
        return
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = [f"{file}:{line}: {word}" for line, text in messages(tree) for word in gone(text)]
    assert not found, "\n".join(found)


def members(thing):
    """A public thing, and the public members of a class that this package defines."""
    yield thing.__qualname__, thing
    if inspect.isclass(thing):
        for base in thing.__mro__:
            if base.__module__.startswith("carving"):
                for name, member in vars(base).items():
                    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                    if not name.startswith("_") and inspect.isfunction(function):
                        yield f"{thing.__qualname__}.{name}", function


def public():
    """Every public name of every module that says what is public."""
    for file in FILES:
        name = "carving." + file.removesuffix(".py").replace("/", ".").removesuffix("__init__").rstrip(".")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        if not any(isinstance(node, ast.Assign) and strings(node) and getattr(node.targets[0], "id", "") == "__all__"
                   for node in tree.body):  # fmt: skip
            continue
        module = import_module(name.rstrip("."))
        for each in module.__all__:
            thing = getattr(module, each)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                yield from members(thing)


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_and_parameters_use_the_words_of_the_glossary(name):
    if name in EXCEPTIONS:
        return
    text = inspect.getdoc(PUBLIC[name]) or ""
    found = gone(text) + ([text.partition("\n")[0]] if STARTS.match(text) else [])
    if inspect.isroutine(PUBLIC[name]) or dataclass_like(PUBLIC[name]):
        found += sorted(OLD_NAMES & set(inspect.signature(PUBLIC[name]).parameters))
    assert not found, found


def documented(text):
    """The names in the section Args of a docstring."""
    section = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    return [
        name.strip(" *`") for line in re.findall(r"^    (\S[^:]*):", section, re.M) for name in line.split(",") if name
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_documented_arguments_exist(name):
    names = documented(inspect.getdoc(PUBLIC[name]) or "")
    if names:
        assert set(names) <= set(inspect.signature(PUBLIC[name]).parameters)


@pytest.mark.parametrize("file", [file for file in FILES if not file.startswith(("cli/", "explore/"))])
def test_errors_of_the_library_do_not_speak_of_options_of_the_command_line(file):
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = [f"{file}:{line}: {text}" for line, text in messages(tree) if re.search(r"(?<!\S)`?--[a-z]", text)]
    assert not found, "\n".join(found)


def dataclass_like(thing):
    return inspect.isclass(thing) and "__init__" in vars(thing)


def test_help_uses_the_words_of_the_glossary():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        texts = [
            command.help or "",
            command.epilog or "",
            *(getattr(each, "help", "") or "" for each in command.params),
        ]
        found = [word for text in texts for word in gone(text)]
        options = {option.removeprefix("--") for each in command.params for option in each.opts}
        assert not found and not options & OLD_NAMES, (name, found, options & OLD_NAMES)


@pytest.mark.parametrize("file", sorted((ROOT / "explore" / "page").glob("*.js")), ids=lambda file: file.name)
def test_the_page_uses_the_words_of_the_glossary(file):
    texts = re.findall(r'"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`', file.read_text("utf-8"))
    found = [word for text in texts for word in gone(re.sub(r"\$\{[^}]*\}", "", text))]
    assert not found, found


# Records of more than four fields are built by keyword: positions say nothing to a reader.

KEYWORDS = (
    "cli",
    "explore",
    "formats",
    "hdc",
    "index",
    "inference",
    "lab",
    "memory",
    "multilabel",
    "planner",
    "storage",
    "structures",
    "symbols",
)
MAX_POSITIONAL = 3  # of tables of panels and published numbers, whose first columns are the same in every row


def wide_records(tree):
    """The names of the NamedTuples and dataclasses of a module that have more than four fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            kinds = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            if any("NamedTuple" in kind or "dataclass" in kind for kind in kinds) and len(fields) > 4:
                yield node.name


@pytest.mark.parametrize("package", KEYWORDS)
def test_wide_records_are_built_by_keyword(package):
    trees = {file: ast.parse((ROOT / file).read_text("utf-8")) for file in FILES if file.startswith(f"{package}/")}
    wide = {name for tree in trees.values() for name in wide_records(tree)}
    found = [
        f"{file}:{node.lineno}: {name}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL
        if (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in wide
    ]
    assert not found, "\n".join(found)

"""CoNLL-U: dependency trees, a token a line. A sentence is {token: {field: value}}."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from carving.errors import BadType, BadValue
from carving.formats.documents import Document, brief, is_integer
from carving.formats.sources import Lines, Refuse, raise_bad_line
from carving.symbols.codec import Label

Token = dict[str, Label]
Sentence = dict[Label, Token]

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
USUAL_FIELDS = ("form", "upos", "head", "deprel")

LONGEST = 100_000  # tokens of a sentence, which is held whole

_TOKEN_ID = re.compile(r"[1-9][0-9]{,17}|[0-9]{1,18}[-.][0-9]{1,18}")
_HEAD = re.compile(r"[0-9]{1,18}")
_VALUE = re.compile(r"[^\t\n\r]+")
_WANTED_ID = "the id of a token must be a number from 1, a range such as 3-4 or an empty node such as 3.1"


# Reading


def read_conllu(
    lines: Lines, fields: Sequence[str] = USUAL_FIELDS, refuse: Refuse = raise_bad_line
) -> Iterator[tuple[Label, Sentence]]:
    r"""The sentences with their names: the sent_id, or without one the sentence's number from 0.

    A word's id and head are integers. Ranges of words ("3-4") and empty nodes ("3.1") are kept, with strings for ids.
    A field that says nothing ("_") is left out, but a form may be an underscore.

    >>> token = "1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_\n"
    >>> list(read_conllu([(1, "# sent_id = a\n"), (2, token)]))
    [('a', {1: {'form': 'Dogs', 'upos': 'NOUN', 'head': 2, 'deprel': 'nsubj'}})]
    """
    _check_fields(fields)
    first_lines: dict[Label, int] = {}  # of the sentences by their names
    for count, (line, sent_id, sentence) in enumerate(_sentences(lines, fields, refuse)):
        name = count if sent_id is None else sent_id
        if first_lines.setdefault(name, line) == line:
            yield name, sentence
        else:
            before = first_lines[name]
            refuse(line, f"sent_id must be unique, got {brief(name)}, which is on line {before} already")


def _sentences(lines: Lines, fields: Sequence[str], refuse: Refuse) -> Iterator[tuple[int, str | None, Sentence]]:
    """The sentences that have a token, with their sent_ids and the lines where these (or the sentences' ends) stand."""
    start, name = 0, None
    sentence: Sentence = {}
    for number, line in chain(lines, [(0, "")]):
        if line.startswith("#"):
            sent_id = _sent_id(line)
            if sent_id is not None:
                start, name = number, sent_id
        elif line.strip():
            try:
                _add_token(sentence, line.rstrip("\r\n"), fields)
            except BadValue as error:
                refuse(number, str(error))
            if len(sentence) > LONGEST:
                raise BadValue(
                    f"a sentence may have at most {LONGEST:,} tokens, got more by line {number}. Separate sentences "
                    "by blank lines."
                )
        else:
            if sentence:
                yield start, name, sentence
            start, name, sentence = number, None, {}


def _sent_id(comment: str) -> str | None:
    # Without a regular expression: a comment may be one long run of spaces.
    key, _, value = comment[1:].partition("=")
    return (value.strip() or None) if key.strip() == "sent_id" else None


def _add_token(sentence: Sentence, line: str, fields: Sequence[str]) -> None:
    parts = line.split("\t")
    if len(parts) != len(FIELDS):
        raise BadValue(f"expected {len(FIELDS)} fields separated by tabs, got {len(parts)}: {brief(line)}")
    values: Token = dict(zip(FIELDS, parts, strict=True))
    token, head = parts[0], parts[FIELDS.index("head")]
    if _TOKEN_ID.fullmatch(token) is None:
        raise BadValue(f"{_WANTED_ID}, got {brief(token)}")
    if head != "_":
        if _HEAD.fullmatch(head) is None:
            raise BadValue(f"the head of a token must be the id of a word, 0 or _, got {brief(head)}")
        values["head"] = int(head)
    id = int(token) if token.isdecimal() else token
    if id in sentence:
        raise BadValue(f"the ids of a sentence must be unique, got {id!r} again")
    sentence[id] = {field: values[field] for field in fields if values[field] != "_" or field == "form"}


def _check_fields(fields: Sequence[str]) -> None:
    if isinstance(fields, str) or not fields or any(field not in FIELDS[1:] for field in fields):
        raise BadValue(f"fields must be a list of names from {', '.join(FIELDS[1:])}, got {fields!r}.")


# Writing


def show_conllu(sentences: Document, fields: Sequence[str] | None = None) -> str:
    r"""Sentences by their names as CoNLL-U, with "_" for every field that they do not have.

    Names that are strings become sent_ids; others must be the number of the sentence, from 0. Reading the text with
    equal `fields` (None: all fields of the tokens) returns equal sentences.

    >>> print(show_conllu({"a": {1: {"form": "Dogs", "head": 0}}}).expandtabs(5))
    # sent_id = a
    1    Dogs _    _    _    _    0    _    _    _
    <BLANKLINE>
    <BLANKLINE>
    """
    if not isinstance(sentences, dict | list):
        raise BadType(f"sentences must be {{name: {{token: {{field: value}}}}}}, got {brief(sentences)}.")
    items = list(sentences.items() if isinstance(sentences, dict) else enumerate(sentences))
    for name, sentence in items:
        _check_sentence(name, sentence)
    if fields is None:
        present = {field for _, sentence in items for token in sentence.values() for field in token}
        fields = [field for field in FIELDS[1:] if field in present]
    else:
        _check_fields(fields)
    return "".join(_show_sentence(number, *item, fields) for number, item in enumerate(items))


def _show_sentence(number: int, name: Label, sentence: Sentence, fields: Sequence[str]) -> str:
    if isinstance(name, str):
        if not name or name != name.strip() or re.search(r"[\n\r]", name):
            raise BadValue(f"The name of a sentence must fit on one line, got {brief(name)}.")
        lines = [f"# sent_id = {name}\n"]
    elif is_integer(name) and name == number:
        lines = []
    else:
        raise BadValue(f"The name of a sentence must be a string or its number, here {number}, got {name!r}.")
    try:
        lines += [_show_token(token, sentence[token], fields) for token in sorted(sentence, key=_token_order)]
    except BadValue as error:
        raise BadValue(f"sentence {brief(name)}: {error}") from None
    return "".join(lines) + "\n"


def _show_token(token: Label, values: Token, fields: Sequence[str]) -> str:
    for field in values:
        if field not in fields:
            wanted = ", ".join(fields if field in FIELDS else FIELDS[1:])
            raise BadValue(f"the fields of a token must be among {wanted}, got {brief(field)}")
    if "form" in fields and "form" not in values:
        raise BadValue(f"a token must have a form unless fields excludes form, got {brief(values)}")
    cells = (_show_value(field, values[field]) if field in values else "_" for field in FIELDS[1:])
    return "\t".join([str(token), *cells]) + "\n"


def _show_value(field: str, value: Label) -> str:
    if field == "head":
        if is_integer(value) and _HEAD.fullmatch(str(value)):
            return str(value)
        raise BadValue(f"the head of a token must be the number of a word or 0, got {brief(value)}")
    if isinstance(value, str) and _VALUE.fullmatch(value) and (value != "_" or field == "form"):
        return value
    raise BadValue(f"{field} must be a string without tabs or line ends, neither empty nor _, got {brief(value)}")


def _check_sentence(name: Label, sentence: object) -> None:
    if not isinstance(sentence, dict) or not sentence or not all(isinstance(t, dict) for t in sentence.values()):
        raise BadValue(f"A sentence must be {{token: {{field: value}}}}, got {brief(sentence)} as {brief(name)}.")


def _token_order(token: Label) -> tuple[int, int]:
    """A range stands before its first word, an empty node after the word that it follows."""
    if not (is_integer(token) or isinstance(token, str)) or _TOKEN_ID.fullmatch(str(token)) is None:
        raise BadValue(f"{_WANTED_ID}, got {brief(token)}")
    if isinstance(token, str) and token.isdecimal():
        raise BadValue(f"the id of a word must be an integer, got {token!r}. Use {int(token)}.")
    first, mark, rest = re.split(r"([-.]|$)", str(token), maxsplit=1)
    return int(first), {"-": -1, "": 0, ".": 1}[mark] * int(rest or 0)

"""Labels and paths as typed text: parsing them (a number may also be meant as text), and showing them."""

import json
import math
from collections.abc import Sequence
from typing import TypeGuard

from carving.symbols.codec import Label, Path, Value

BETWEEN = " / "  # the roles of a path that is typed, or shown, in one line


def parse_label(text: str) -> Label:
    """Parse a typed role or value: numbers, true, false, null and quoted text as in JSON, all else as text."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if is_label(value) else text


def label_argument(label: object) -> str | None:
    """The argument that `parse_label` takes for this label, if there is any."""
    if not is_label(label) or (isinstance(label, str) and not label.isprintable()):
        return None
    if isinstance(label, str) and parse_label(label) == label and not label.startswith("-"):  # no option, no "-"
        return label
    return json.dumps(label, ensure_ascii=False)


def is_label(value: object) -> TypeGuard[str | int | float | bool | None]:
    """Whether JSON can say this label."""
    return isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value))


def path_readings(roles: Sequence[str], as_text: bool) -> list[Path]:
    """The paths that roles may mean: numbers may be text in the file that they came from, so both are tried."""
    plain = tuple(roles)
    typed = plain if as_text else tuple(map(parse_label, roles))
    return [plain] if typed == plain else [typed, plain]


def value_readings(text: str, as_text: bool) -> list[Value]:
    """Return the values that an argument may mean: a number, and the text of the number."""
    typed = text if as_text else parse_label(text)
    return [text] if typed == text else [typed, text]


def line_readings(line: str) -> list[Path]:
    """The paths that a line may mean: roles parted by slashes between spaces, or by any, or a JSON array of them.

    >>> line_readings("dog / says"), line_readings("dog/says"), line_readings('["a / b", 3]')
    ([('dog', 'says')], [('dog/says',), ('dog', 'says')], [('a / b', 3)])
    """
    line = line.strip()
    if line.startswith("["):
        roles = _array(line)
        if roles is not None:
            return [roles]
    if BETWEEN in line:
        return path_readings([role.strip() for role in line.split(BETWEEN)], False)
    readings = path_readings([line], False)
    if "/" in line.strip("/"):
        readings += path_readings([role.strip() for role in line.strip("/").split("/")], False)
    return readings


def _array(line: str) -> Path | None:
    """The roles of a JSON array, if the line is one."""
    try:
        roles: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return tuple(roles) if isinstance(roles, list) and roles and all(map(is_label, roles)) else None


def path_line(path: Path) -> str | None:
    """Return the line whose first reading is this path; None if there is none.

    >>> path_line(("dog", "says")), path_line(("1984", 3)), path_line(("a / b",)), path_line((b"x",))
    ('dog / says', '"1984" / 3', '["a / b"]', None)
    """
    arguments = [label_argument(role) for role in path]
    if None in arguments:
        return None
    line = BETWEEN.join(str(argument) for argument in arguments)
    if line_readings(line)[:1] == [path]:
        return line
    return json.dumps(list(path), ensure_ascii=False)


def value_json(value: object) -> object:
    """Return a value for JSON; bytes, NaN and infinities become text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def value_text(value: object) -> str:
    """Return a value as text: strings unchanged, all else as in JSON."""
    return value if isinstance(value, str) else json.dumps(value_json(value))


def path_text(path: Path) -> str:
    """A path for people."""
    return BETWEEN.join(map(str, path))

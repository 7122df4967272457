"""Parameters of a request, checked when they are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from carving.errors import BadValue
from carving.validate import check_integer

MAX_TEXT_LENGTH = 4000  # characters of a text


@dataclass(frozen=True)
class Params:
    """The parameters of a query string (all are texts) or of a JSON body."""

    values: Mapping[str, object]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text, which may be blank only if there is a default."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise BadValue(f"{name} must be a {'non-empty ' if default is None else ''}text, got {_brief(value)}.")
        if len(value) > MAX_TEXT_LENGTH:
            raise BadValue(f"{name} must have at most {MAX_TEXT_LENGTH:,} characters, got {len(value):,}.")
        return value

    def integer(self, name: str, default: int | None, least: int, most: int) -> int:
        """Return an integer from `least` to `most`."""
        value = self.values.get(name, default)
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
            value = int(value)
        return check_integer(name, value, least, most)

    def number(self, name: str, default: float) -> float:
        """Return a number."""
        value = self.values.get(name, default)
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise BadValue(f"{name} must be a number, got {_brief(value)}. The default is {default}.") from None

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of several words; the first by default."""
        value = self.values.get(name, choices[0])
        if value not in choices:
            raise BadValue(f"{name} must be one of {', '.join(choices)}, got {_brief(value)}.")
        return str(value)

    def flag(self, name: str) -> bool:
        """Return whether a flag is set."""
        return self.values.get(name) in (True, "true", "1", "yes")


def _brief(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

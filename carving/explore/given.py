"""What a request gives: values by their names, checked as they are taken."""

from collections.abc import Mapping
from dataclasses import dataclass

from carving.checks import check_integer
from carving.errors import BadValue

LONGEST = 4000  # characters of a text that somebody typed


@dataclass(frozen=True)
class Given:
    """The values of a question's address, which are texts, or of a change's JSON."""

    values: Mapping[str, object]

    def text(self, name: str, default: str | None = None) -> str:
        """A text, which must not be blank unless there is a default."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise BadValue(f"{name} must be a text, got {_brief(value)}; type something")
        if len(value) > LONGEST:
            raise BadValue(f"{name} may have {LONGEST:,} characters, got {len(value):,}; shorten it")
        return value

    def integer(self, name: str, default: int | None, least: int, most: int) -> int:
        """A whole number between two."""
        value = self.values.get(name, default)
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
            value = int(value)
        return check_integer(name, value, least, most)

    def number(self, name: str, default: float) -> float:
        """A number."""
        value = self.values.get(name, default)
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise BadValue(f"{name} must be a number, got {_brief(value)}; {default} is usual") from None

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of several words; the first by default."""
        value = self.values.get(name, choices[0])
        if value not in choices:
            raise BadValue(f"{name} must be one of {', '.join(choices)}, got {_brief(value)}")
        return str(value)

    def yes(self, name: str) -> bool:
        """Whether something is wanted."""
        return self.values.get(name) in (True, "true", "1", "yes")


def _brief(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

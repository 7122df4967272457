"""The symbols that a memory can answer with, in order."""

from collections.abc import Iterable, Iterator

from carving.checks import listed
from carving.draws import Label, canonical


class Vocabulary:
    """Distinct labels in order. `1`, `1.0` and `True` are three of them, though Python calls them equal."""

    def __init__(self, labels: Iterable[Label]) -> None:
        self.labels: tuple[Label, ...] = tuple(listed(labels, "a vocabulary"))
        self._places: dict[bytes, int] = {}
        for place, label in enumerate(self.labels):
            first = self._places.setdefault(canonical(label), place)
            if first != place:
                raise ValueError(
                    f"the labels of a vocabulary must differ, got {label!r} at places {first} and {place}; "
                    "leave out the second"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __getitem__(self, place: int) -> Label:
        return self.labels[place]

    def __contains__(self, label: object) -> bool:
        return canonical(label) in self._places  # type: ignore[arg-type]  # canonical refuses what is no label

    def index(self, label: Label) -> int:
        """The label's place."""
        place = self._places.get(canonical(label))
        if place is None:
            raise KeyError(f"{label!r} is not among the {len(self)} labels of this vocabulary")
        return place

"""The symbols that a memory can answer with, in order."""

from collections.abc import Iterable, Iterator

from carving.draws import Leaf, canonical


class Vocabulary:
    """Distinct labels in order. `1`, `1.0` and `True` are three of them, though Python calls them equal."""

    def __init__(self, labels: Iterable[Leaf] = ()) -> None:
        self.labels: list[Leaf] = []
        self._places: dict[bytes, int] = {}
        if isinstance(labels, str | bytes):
            raise TypeError(f"a vocabulary must be a list, got {labels!r}; for a single label write [{labels!r}]")
        if isinstance(labels, set | frozenset):
            raise TypeError("a vocabulary must have an order, got a set; sorted(...) gives it one")
        for place, label in enumerate(labels):
            if self.add(label) != place:
                raise ValueError(
                    f"the labels of a vocabulary must differ, got {label!r} at places {self.index(label)} and {place}; "
                    "leave out the second"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Leaf]:
        return map(_fresh, self.labels)

    def __getitem__(self, place: int) -> Leaf:
        return _fresh(self.labels[place])

    def __contains__(self, label: object) -> bool:
        return canonical(label) in self._places  # type: ignore[arg-type]  # canonical refuses what is no label

    def add(self, label: Leaf) -> int:
        """The label's place; a new label gets the next one."""
        place = self._places.setdefault(canonical(label), len(self.labels))
        if place == len(self.labels):
            self.labels.append(_fresh(label))
        return place

    def find(self, label: Leaf) -> int | None:
        """The label's place, if it has one."""
        return self._places.get(canonical(label))

    def index(self, label: Leaf) -> int:
        """The label's place; one that has none is refused."""
        place = self.find(label)
        if place is None:
            raise KeyError(f"{label!r} is not among the {len(self)} labels of this vocabulary")
        return place


def _fresh(label: Leaf) -> Leaf:
    """The label; an empty dict or list is another one, so that nobody fills it for others."""
    return type(label)() if isinstance(label, dict | list) else label

"""A cached property without a lock: Python 3.11 has one lock per property, which a forked process may find held."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """A property whose value is computed at first use and kept in the instance's `__dict__`.

        Threads that read it at the same time may each compute it; one of the equal values is kept.

        >>> class Circle:
        ...     @cached_property
        ...     def area(self):
        ...         return 3.14
        >>> circle = Circle()
        >>> circle.area, vars(circle)
        (3.14, {'area': 3.14})
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.function(instance)
            return value


__all__ = ["cached_property"]

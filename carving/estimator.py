"""The base class of classifiers for scikit-learn, which need not be installed to import this module."""

from typing import Self

from carving.optional import MissingExtra, load

try:
    base = load("sklearn.base")
except MissingExtra:

    class Estimator:
        """Stand-in without scikit-learn: creating an instance raises an error that names the extra."""

        def __new__(cls, *arguments: object, **options: object) -> Self:
            """Raise MissingExtra."""
            load("sklearn.base")
            return super().__new__(cls)

else:

    class Estimator(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[no-redef, misc, name-defined]
        """Base class of classifiers with scikit-learn's interface."""

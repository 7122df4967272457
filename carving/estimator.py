"""What scikit-learn's classifiers are based on; where it is not installed, a base that says so when one is made."""

from typing import Self

from carving.optional import MissingExtra, load

try:
    base = load("sklearn.base")
except MissingExtra:

    class Estimator:
        """Stands in for scikit-learn, so that everything can be imported without it."""

        def __new__(cls, *arguments: object, **options: object) -> Self:
            """Say what to install."""
            load("sklearn.base")
            return super().__new__(cls)

else:

    class Estimator(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[no-redef, misc, name-defined]
        """A classifier as scikit-learn knows it."""

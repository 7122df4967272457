"""What scikit-learn asks of an estimator beside fitting: tags, and parameters that reach into the settings."""

from dataclasses import asdict, replace
from typing import Any, Self

from carving.errors import BadValue
from carving.estimator import Estimator
from carving.multilabel.training import Settings
from carving.validate import nearest

NESTED = "settings__"


class MultiLabelEstimator(Estimator):
    """A classifier of many labels a point, whose parameter `settings` may be changed one by one."""

    settings: Settings | None

    def __sklearn_tags__(self) -> Any:
        """Many labels a point, and sparse matrices."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.two_d_labels = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class, tags.classifier_tags.multi_label = False, True
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` adds the fields of `settings`, as `settings__learning_rate`."""
        params: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if deep and isinstance(self.settings, Settings):
            params |= {f"{NESTED}{name}": value for name, value in asdict(self.settings).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `settings__epochs=` and similar names set one field of `settings`.

        Raises:
            BadValue: If a field of `settings` is set while `settings` is None, or a name is unknown.
        """
        nested = {name.removeprefix(NESTED): params.pop(name) for name in list(params) if name.startswith(NESTED)}
        super().set_params(**params)  # type: ignore[misc]
        if not nested:
            return self
        if self.settings is None:
            first = next(iter(nested))
            raise BadValue(f"{NESTED}{first} needs settings, which is None. Set settings=Settings(...) first.")
        unknown_labels = sorted(nested.keys() - asdict(self.settings).keys())
        if unknown_labels:
            raise BadValue(
                f"Settings has no parameter {unknown_labels[0]!r}. {nearest(unknown_labels[0], asdict(self.settings))}"
            )
        self.settings = replace(self.settings, **nested)
        return self

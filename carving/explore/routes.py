"""The table of requests: method and name, and the function that answers."""

from collections.abc import Callable, Iterator

from carving.explore import asking, changing, overview, planning, together
from carving.explore.exhibit import Gallery
from carving.explore.given import Given
from carving.explore.shown import Json

Reply = Json | Iterator[Json]  # one object, or a stream of them
Route = Callable[[Gallery, Given], Reply]

ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "about"): overview.about,
    ("GET", "overview"): overview.overview,
    ("GET", "gauge"): overview.fullness,
    ("GET", "cells"): overview.cells,
    ("GET", "histogram"): overview.histogram,
    ("GET", "paths"): asking.paths,
    ("GET", "values"): asking.values,
    ("GET", "ask"): asking.ask,
    ("GET", "together"): together.together,
    ("GET", "plan"): planning.plan,
    ("GET", "changes"): changing.changes,
    ("POST", "session"): changing.open_page,
    ("POST", "store"): changing.store,
    ("POST", "forget"): changing.forget,
    ("POST", "reset"): changing.reset,
    ("POST", "save"): changing.save,
}

"""The table of requests: method and name, and the function that answers."""

from collections.abc import Callable, Iterator

from carving.explore import changes, decoding, overview, planning, queries
from carving.explore.params import Params
from carving.explore.serializers import Json
from carving.explore.sessions import SessionStore

Reply = Json | Iterator[Json]  # one object, or a stream of them
Route = Callable[[SessionStore, Params], Reply]

ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "about"): overview.about,
    ("GET", "overview"): overview.overview,
    ("GET", "load"): overview.load,
    ("GET", "cells"): overview.cells,
    ("GET", "histogram"): overview.histogram,
    ("GET", "paths"): queries.paths,
    ("GET", "values"): queries.values,
    ("GET", "ask"): queries.ask,
    ("GET", "decode"): decoding.decode,
    ("GET", "plan"): planning.plan,
    ("GET", "changes"): changes.changes,
    ("POST", "session"): changes.open_session,
    ("POST", "store"): changes.store,
    ("POST", "forget"): changes.forget,
    ("POST", "reset"): changes.reset,
    ("POST", "save"): changes.save,
}

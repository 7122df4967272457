"""`python -m carving` is `carving`."""

from carving.cli import app

app(prog_name="carving")

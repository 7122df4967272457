"""`python -m carving` is `carving`."""

from carving.cli import app

if __name__ == "__main__":
    app(prog_name="carving")

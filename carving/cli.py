"""The command line: one short function a command."""

from typing import Annotated

import typer
from rich.console import Console

from carving import demo as demonstration

app = typer.Typer(help="Symbolic memories of fixed size.", no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """Symbolic memories of fixed size."""


@app.command()
def demo(
    pairs: Annotated[int, typer.Option(min=1, max=10_000, help="How many facts to store.")] = 10_000,
    d: Annotated[int, typer.Option(min=4, help="The side of the memory.")] = 80,
    p: Annotated[int, typer.Option(min=1, max=4, help="The order of the memory.")] = 3,
) -> None:
    """Store facts under paths of three roles in one tensor and ask for all of them."""
    try:
        demonstration.run(Console(), pairs, d, p)
    except ValueError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app()

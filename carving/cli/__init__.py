"""The command line. Exit status: 0 success, 1 not found or not all correct, 2 bad input, 3 a bug in Carving."""

from typing import Annotated

import typer

from carving import __version__
from carving.cli import (
    consolidating,
    demo,
    exploring,
    exporting,
    growth,
    journals,
    lab,
    labels,
    memories,
    planning,
    predicting,
    quantizing,
    questions,
    where,
)
from carving.cli.failures import errors_as_sentences, show_traceback
from carving.cli.options import with_groups
from carving.cli.output import warnings_as_sentences

app = typer.Typer(
    help="Symbolic memories of fixed size.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (
    (demo.demo, demo.DEMO_EPILOG),
    (planning.plan, planning.PLAN_EPILOG),
    (memories.store, memories.STORE_EPILOG),
    (questions.ask, questions.ASK_EPILOG),
    (where.where, where.WHERE_EPILOG),
    (memories.forget, memories.FORGET_EPILOG),
    (memories.merge, memories.MERGE_EPILOG),
    (growth.grow, growth.GROW_EPILOG),
    (consolidating.consolidate, consolidating.CONSOLIDATE_EPILOG),
    (exporting.export, exporting.EXPORT_EPILOG),
    (quantizing.quantize, quantizing.SEAL_EPILOG),
    (quantizing.decode, quantizing.UNSEAL_EPILOG),
    (journals.compact, journals.COMPACT_EPILOG),
    (questions.info, questions.INFO_EPILOG),
    (questions.verify, questions.VERIFY_EPILOG),
    (exploring.explore, exploring.EXPLORE_EPILOG),
    (lab.reproduce, lab.REPRODUCE_EPILOG),
    (labels.train, labels.TRAIN_EPILOG),
    (labels.evaluate, labels.EVALUATE_EPILOG),
    (predicting.predict, predicting.PREDICT_EPILOG),
)

# They write files, and say so only when that is done.
WRITERS = (
    memories.store, memories.forget, memories.merge, growth.grow, consolidating.consolidate, exporting.export,
    quantizing.quantize, quantizing.decode, journals.compact, labels.train,
)  # fmt: skip

for command, epilog in COMMANDS:
    guarded = errors_as_sentences(command in WRITERS)(warnings_as_sentences()(command))
    app.command(epilog=epilog)(with_groups(guarded))


def show_version(wanted: bool) -> None:
    """Print the version and exit, if `--version` was given."""
    if wanted:
        typer.echo(f"carving {__version__}")
        raise typer.Exit


@app.callback(epilog="`carving COMMAND -h` explains a command, with examples.")
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the Python traceback of every error.")] = False,
) -> None:
    """Symbolic memories of fixed size."""
    show_traceback.set(traceback)

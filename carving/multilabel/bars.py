"""Progress of training on a terminal: bars for networks and rerankers; where none can be drawn, a line an epoch."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from carving.multilabel import training


@contextmanager
def bars(console: Console) -> Iterator[training.OnProgress]:
    """What is to be called as training goes: it shows a network's epoch, its loss and its validation nDCG."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def on_progress(name: str, progress: training.Progress, share: float) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=None, state="")
            if not progress.epochs:  # rerankers, which have none
                shown.update(tasks[name], total=1.0, completed=share, state=f"{share:.0%} of the labels")
                if not console.is_terminal and share == 1:
                    console.print(f"{name}: all labels", markup=False)
                return
            state = f"epoch {progress.epoch} of {progress.epochs}"  # that is done, as are loss and validation
            if progress.losses:
                state += f", loss {progress.losses[-1]:.3f}"
            if progress.validation:
                state += f", validation nDCG@5 {100 * progress.validation[-1]:.2f}"
            shown.update(tasks[name], total=progress.epochs, completed=progress.epoch + share, state=state)
            if not console.is_terminal and not share:  # an epoch has ended
                console.print(f"{name}: {state}", markup=False)

        yield on_progress

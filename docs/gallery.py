"""The gallery: every script of examples/, run, with what it printed and a picture of what it made."""

import ast
import contextlib
import io
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

EXAMPLES = Path(__file__).parent.parent / "examples"
BLUE, ORANGE = "#0072B2", "#D55E00"
Names = dict[str, Any]  # what a script has defined when it ends


def pages() -> dict[str, bytes]:
    """Pages and pictures, by their places in the gallery."""
    files: dict[str, bytes] = {}
    cards = []
    for script in sorted(EXAMPLES.glob("*.py")):
        text = script.read_text()
        told = (ast.get_docstring(ast.parse(text)) or "").partition("\n\nprints:")[0]
        name, out = script.stem, io.StringIO()
        with contextlib.redirect_stdout(out):
            left = runpy.run_path(str(script), run_name="__main__")
        files[f"{name}.svg"] = picture(name, left)
        files[f"{name}.md"] = page(name, told, text.partition('"""\n\n')[2], out.getvalue()).encode()
        short = re.sub(r"`([^`]+)`", r"<code>\1</code>", told)
        cards.append(
            f'<a href="{name}.html"><img alt="" src="../_images/{name}.svg"><b>{name}</b><span>{short}</span></a>'
        )
    head = "# Gallery\n\nShort scripts to start from, in `examples/`. They ran when this page was made.\n\n"
    toc = "\n".join(["```{toctree}", ":hidden:", "", *(name[:-3] for name in files if name.endswith(".md")), "```"])
    files["index.md"] = f'{head}<div class="gallery">\n{chr(10).join(cards)}\n</div>\n\n{toc}\n'.encode()
    return files


def page(name: str, told: str, code: str, printed: str) -> str:
    """One example."""
    return (
        f"# {name}\n\n{told}\n\n![what {name} made]({name}.svg)\n\n```python\n{code}```\n\n"
        f"It prints\n\n```text\n{printed}```\n"
    )


def picture(name: str, left: Names) -> bytes:
    """What the script made, as its drawing shows it, or its first tensor."""
    figure = Figure(figsize=(4.2, 2.6), layout="constrained")
    DRAWINGS.get(name, first_tensor)(figure.add_subplot(), left)
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def first_tensor(axes: Axes, left: Names) -> None:
    """For scripts without a drawing of their own: the first numbers of the largest tensor."""
    tensors = [value for value in left.values() if isinstance(value, torch.Tensor)]
    tensors += [value.tensor for value in left.values() if isinstance(getattr(value, "tensor", None), torch.Tensor)]
    largest = max(tensors, key=torch.Tensor.numel) if tensors else torch.zeros(1, 1)
    axes.imshow(
        largest.flatten()[:2048].real.float().reshape(1, -1).expand(1, -1).reshape(-1, min(64, largest.numel())),
        cmap="RdBu",
    )
    axes.set(title="numbers that it made", xticks=[], yticks=[])


def bars(axes: Axes, names: list[str], values: torch.Tensor, title: str) -> None:
    """How alike something is to each of these."""
    best = int(values.argmax())
    axes.barh(names, values.tolist(), color=[ORANGE if i == best else BLUE for i in range(len(names))])
    axes.invert_yaxis()
    axes.set(xlabel="similarity", title=title)


def heat(axes: Axes, rows: list[str], columns: list[str], values: torch.Tensor, title: str) -> None:
    """How alike all of these are to all of those."""
    axes.imshow(values, cmap="Blues", vmin=0, vmax=float(values.max()), aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(title)


def automaton(axes: Axes, left: Names) -> None:
    """Where each state and token lead."""
    scheme, steps = left["scheme"], [(s, t) for s in left["states"] for t in left["tokens"]]
    reached = torch.stack([left["turnstile"].step(left["state"][s], left["token"][t]) for s, t in steps])
    likeness = torch.stack([scheme.similarity(one, scheme.fillers(left["states"])) for one in reached])
    heat(axes, [f"{s}, {t}" for s, t in steps], left["states"], likeness, "where a step leads")


def digits(axes: Axes, left: Names) -> None:
    """Some of the images."""
    rows = torch.tensor(left["images"][:40]).reshape(4, 10, 8, 8).permute(0, 2, 1, 3).reshape(32, 80)
    axes.imshow(rows, cmap="Greys")
    axes.set(title="some of the 1,797 digits", xticks=[], yticks=[])


def factors(axes: Axes, left: Names) -> None:
    """The colors of the first scene, once shape and place are known."""
    scheme, books = left["scheme"], left["books"]
    rest = scheme.unbind(scheme.unbind(left["scenes"][0], books[1][0]), books[2][0])
    bars(axes, left["words"]["color"], scheme.similarity(rest, books[0]), "its color, shape and place known")


def graph(axes: Axes, left: Names) -> None:
    """Where roads from Oslo lead, at the end."""
    scheme, names = left["scheme"], left["names"]
    likeness = scheme.similarity(left["roads"].neighbors(left["cities"]["Oslo"]), scheme.fillers(names))
    bars(axes, names, likeness, "where roads from Oslo lead")


def hours(axes: Axes, left: Names) -> None:
    """How alike the codes of hours are."""
    fillers = left["memory"].recall("monday", "opens", top=24)
    shown = sorted((answer.value, answer.score) for answer in fillers)
    axes.bar(*zip(*shown, strict=True), color=[ORANGE if hour == 8 else BLUE for hour, _ in shown])
    axes.set(xlabel="hour", ylabel="score", title="monday, opens", xticks=range(0, 24, 4))


def languages(axes: Axes, left: Names) -> None:
    """The last text beside the three languages."""
    likeness = left["scheme"].similarity(left["encode"](left["text"]), left["languages"])
    bars(axes, list(left["TEXTS"]), likeness, f"“{left['text']}”")


def places(axes: Axes, left: Names) -> None:
    """What the scene shows of the cup, over the plane."""
    scheme = left["scheme"]
    likeness = scheme.similarity(scheme.unbind(left["scene"], left["cup"]), left["codes"])
    side = len(left["steps"])
    image = axes.imshow(likeness.reshape(side, side).T, origin="lower", extent=(-4.25, 4.25, -4.25, 4.25), cmap="Blues")
    axes.figure.colorbar(image, ax=axes, label="similarity")
    axes.set(title="where is the cup?", xlabel="to the right", ylabel="up")


def record(axes: Axes, left: Names) -> None:
    """What is like the dollar in Mexico."""
    likeness = left["scheme"].similarity(left["like"], left["things"])
    bars(axes, left["words"], likeness, "the dollar of Mexico")


def table(axes: Axes, left: Names) -> None:
    """What each key holds at the end."""
    scheme = left["scheme"]
    held = left["table"].get(left["keys"])
    likeness = torch.stack([scheme.similarity(one, left["values"]) for one in held])
    heat(axes, left["fruits"], left["colors"], likeness.clamp(min=0), "what each fruit holds, at the end")


def tree(axes: Axes, left: Names) -> None:
    """Who is where."""
    scheme, places = left["scheme"], [(0, 0), (0, 1), (1, 0), (1, 1)]
    likeness = torch.stack([scheme.similarity(left["tree"].get(path), left["people"]) for path in places])
    words = [" of ".join(("left", "right")[turn] for turn in reversed(path)) for path in places]
    heat(axes, words, left["names"], likeness.clamp(min=0), "who is where")


DRAWINGS: dict[str, Callable[[Axes, Names], None]] = {
    drawing.__name__: drawing
    for drawing in (automaton, digits, factors, graph, hours, languages, places, record, table, tree)
}

"""The pages of the API reference: every public name, room by room, from its docstring."""

import inspect
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import carving


def rooms() -> list[ModuleType]:
    """The modules and packages right below the top that say what is public."""
    names = [module.name for module in iter_modules(carving.__path__, "carving.")]
    modules = [import_module(name) for name in ("carving", *names) if not name.rpartition(".")[2].startswith("__main")]
    return [module for module in modules if getattr(module, "__all__", None) and module.__name__ not in ELSEWHERE]


UNLISTED = {"carving": ("open",)}  # public, but `from carving import *` must not shadow a builtin
ELSEWHERE = ("carving.memory",)  # its public names stand in carving


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    made = {module.__name__: page(module) for module in rooms()}
    lines = [f"| [{name}]({name}.md) | {first_line(import_module(name))} |" for name in made]
    index = "\n".join(
        ["# Reference", "", "Every public name; the examples are run by the tests.", "", "| | |", "|---|---|", *lines]
    )
    toc = "\n".join(["```{toctree}", ":hidden:", *made, "```"])
    return {"index": f"{index}\n\n{toc}\n"} | made


def page(module: ModuleType) -> str:
    """One room: what it is, and its names."""
    parts = [f"# {module.__name__}", first_line(module)]
    names = [*module.__all__, *UNLISTED.get(module.__name__, ())]
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            parts.append(f"## {name}\n\n```{{eval-rst}}\n{directive(module, name, thing)}\n```")
    data = [
        name
        for name in names
        if not (inspect.isclass(getattr(module, name)) or inspect.isroutine(getattr(module, name)))
    ]
    if data:
        parts.append("## Values and types\n\n" + "\n".join(f"- `{name}`" for name in data))
    return "\n\n".join(parts) + "\n"


def directive(module: ModuleType, name: str, thing: object) -> str:
    """What Sphinx is told of a name."""
    whole = f"{module.__name__}.{name}"
    again = "" if module.__name__ == "carving" or not hasattr(carving, name) else "   :no-index:\n"
    if inspect.isclass(thing):
        members = "" if issubclass(thing, BaseException) else f"   :members:{inherited(thing)}\n"
        return f".. autoclass:: {whole}\n{again}{members}"
    return f".. autofunction:: {whole}\n{again}"


def inherited(thing: type) -> str:
    """Members of bases of ours are shown with the class, those of others are not."""
    not_found = [base.__name__ for base in thing.__mro__[1:] if not base.__module__.startswith("carving")]
    return f"\n   :inherited-members: {', '.join(not_found)}" if not_found else ""


def first_line(module: ModuleType) -> str:
    """What a module says that it is."""
    return (module.__doc__ or "").strip().partition("\n")[0]

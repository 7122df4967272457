"""Find the scopes in which two names of notes/names.tsv, or one and a name that is there, would become one.

python notes/collisions.py carving tests
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = dict(line.split("\t")[1:] for line in Path(__file__).with_name("names.tsv").read_text("utf-8").splitlines()[1:])


def renamed(name: str) -> str:
    """Return the new name, also of a word within a name: `leaf_json` becomes `value_json`."""
    return NAMES.get(name) or "_".join(NAMES.get(part, part) for part in name.split("_"))


def scopes(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Yield each function and class with the names that are bound or read in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (
                node.name,
                {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)},
            )
        elif isinstance(node, ast.ClassDef):
            yield (
                node.name,
                {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
                | {n.name for n in node.body if isinstance(n, ast.FunctionDef)},
            )


def main() -> int:
    """Print the collisions, and return how many there are."""
    found = 0
    for file in (file for folder in sys.argv[1:] for file in sorted(Path(folder).rglob("*.py"))):
        for scope, names in scopes(ast.parse(file.read_text("utf-8"))):
            for name in sorted(names):
                others = sorted(other for other in names if other != name and renamed(other) == renamed(name) != name)
                if others:
                    found += 1
                    print(f"{file}:{scope}: {name} and {', '.join(others)} would be {renamed(name)}")
    return found


if __name__ == "__main__":
    sys.exit(bool(main()))

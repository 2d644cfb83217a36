"""List of all programs, each with a summary, and how to run them."""

from __future__ import annotations

import ast
from pathlib import Path

_HERE = Path(__file__).parent
_HOW = """\
Benchmarks and experiments. Run them with the Python of the environment that deploy/demo and tests/run make:

    .venv/bin/python -m experiments.NAME --help

"""


def main() -> None:
    """Print the list."""
    print(_HOW + "\n".join(f"  {name:<15} {line}" for name, line in programs().items()))


def programs() -> dict[str, str]:
    """The programs by name, each with its summary line."""
    files = {path.stem: path for path in _HERE.glob("*.py") if not path.stem.startswith("__")}
    files |= {path.parent.name: path for path in _HERE.glob("*/__main__.py")}
    return {name: _first_line(files[name]) for name in sorted(files)}


def _first_line(path: Path) -> str:
    """First line of a module's docstring, without the command in it."""
    line = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
    return line.rpartition("``: ")[2]


if __name__ == "__main__":
    main()

"""Import hook that strips info and debug statements from the product.

They are removed from the source of each module as it is loaded.

It imports no module of the product, since no logging module may be loaded before ``install`` has been called.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

_PACKAGES = {"acquisition", "probes", "filters"}
_FLAGS = {"informs", "debugs"}  #: of ``acquisition.log.Category``; tests/acquisition/test_log.py: all stand behind one
_KEPT = "acquisition.log"
#: Imports of ``experiments`` itself: they have no statement.
_LOADED = {"acquisition", "acquisition.errors", "acquisition.extras"}


class Remover(ast.NodeTransformer):
    """Removes statements behind a flag; ``removed`` counts them."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_If(self, node: ast.If) -> ast.AST:
        """Remove every ``if`` with a flag in its condition."""
        if not any(isinstance(part, ast.Attribute) and part.attr in _FLAGS for part in ast.walk(node.test)):
            return self.generic_visit(node)
        if node.orelse:
            raise ValueError(f"line {node.lineno}: what logs has an else")
        self.removed += 1
        return ast.copy_location(ast.Pass(), node)


class _Loader(SourceFileLoader):
    """Always compiles again, ignoring cached code."""

    def __init__(self, name: str, path: str, remover: Remover) -> None:
        super().__init__(name, path)
        self._remover = remover

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module without log statements."""
        path = self.get_filename(fullname)
        tree = self._remover.visit(ast.parse(self.get_data(path)))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, remover: Remover) -> None:
        self._remover = remover

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Specs of the product's source modules, with the loader above."""
        if fullname.partition(".")[0] not in _PACKAGES or fullname == _KEPT:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path, self._remover)
        return spec


def install() -> Remover:
    """Load the product this way from now on; returns the remover, which counts the statements. Raises RuntimeError if
    it is too late."""
    if loaded := [name for name in sys.modules if name.partition(".")[0] in _PACKAGES and name not in _LOADED]:
        raise RuntimeError(f"loaded already: {', '.join(loaded)}")
    remover = Remover()
    sys.meta_path.insert(0, _Finder(remover))
    return remover

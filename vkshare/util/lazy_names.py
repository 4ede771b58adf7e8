"""Public names that load on first use (PEP 562), listed once: in the ``__init__.pyi`` of their package.

lazy_loader.attach_stub() does the same, but it makes a checkout without its dependencies unable to
say what is missing, imports ast, and has other texts for unknown names.
"""

from __future__ import annotations

import importlib
import sys


class LazyNames:
    """The public names of one package, and the modules that define them."""

    def __init__(self, package: str, objects: dict[str, str], modules: frozenset[str]) -> None:
        self._package = package
        self.objects = objects  # name -> the module that defines it
        self.modules = modules  # public modules of the package

    def names(self) -> list[str]:
        """Return what dir() of the package shows."""
        special = (name for name in vars(sys.modules[self._package]) if name.startswith("__"))
        return sorted({*self.objects, *self.modules, *special})

    def load(self, name: str) -> object:
        """Return the object or module of that name, and keep it in the package, so that the next use is a plain read.

        Raises
        ------
        AttributeError
            The package has no such public name.
        """
        if name in self.objects:
            value = getattr(importlib.import_module(self.objects[name]), name)
        elif name in self.modules:
            value = importlib.import_module(f"{self._package}.{name}")
        else:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        vars(sys.modules[self._package])[name] = value
        return value


def read(package: str, file: str) -> LazyNames:
    """Read the names of a package from the .pyi file beside its ``__init__.py``, whose path is `file`.

    Each name has a line ``from module import name as name``; a module of the package is imported
    from the package. A plain split is enough for such lines, and takes 0.1 ms; ast would take 5.
    """
    loader = sys.modules[package].__spec__.loader  # type: ignore[union-attr]
    text: bytes = loader.get_data(f"{file.removesuffix('c')}i")  # type: ignore[union-attr]
    objects, modules = {}, set()
    for words in map(str.split, text.decode().splitlines()):
        match words:
            case ["from", module, "import", name, "as", _] if module == package:
                modules.add(name)
            case ["from", module, "import", name, "as", _]:
                objects[name] = module
    return LazyNames(package, objects, frozenset(modules))

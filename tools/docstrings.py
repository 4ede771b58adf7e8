#!/usr/bin/env python3
"""Check the docstrings of vkshare's public names: sections for parameters, results and errors, and examples.

    python tools/docstrings.py       the public names of vkshare and of its public modules, and their members

ruff's D rules check the form of every docstring. The rules here, for functions and methods:

- The summary begins with a verb ("Return ..." or "Returns ...").
- Two parameters or more have a section "Parameters" that names each one.
- A result has a section "Returns" or "Yields"; for one parameter or none, a summary "Return ..." is enough.
- Each error that the body raises, except TypeError, stands in a section "Raises".
- The names in EXAMPLES have a section "Examples".

One line a finding: FILE:LINE: the name and the fault. Exit status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from results import ROOT

EXAMPLES = {  # those that users meet first
    "open",
    "adapters",
    "pipe",
    "buffer_pipe",
    "open_receiver",
    "find",
    "open_published",
    "Device.create_surface",
    "Device.open_surface",
    "Device.create_buffer",
    "Device.open_buffer",
    "Device.create_fence",
    "Device.create_swapchain",
    "Device.record",
    "Surface.access",
    "Surface.export",
    "Surface.publish",
    "Surface.read",
    "Surface.write",
    "CommandList.draw_triangles",
    "CommandList.blit",
    "Fence.export",
    "Sender.frame",
    "video.open",
    "video.Reader.frame",
    "video.Player",
    "video.Writer",
    "Receiver.frame",
    "Swapchain.frame",
    "view.serve",
    "view.record",
    "show",
    "Window",
}
NO_VERBS = re.compile(r"(A|An|The|This|That|One|Its|Whether|Each|Every|As|For|Until|At|In|With|Same|How|Why|Where)\b")
NOTHING = {"None", "NoReturn", "Never", ""}

Callable_ = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PROPERTY = re.compile(r"property|(functools\.)?cached_property|overload|.*\.setter")


@dataclass(frozen=True)
class Public:
    """A public function or method, or a class, by the name that users write."""

    name: str
    path: Path
    node: Callable_ | ast.ClassDef


def source(root: Path, module: str) -> Path:
    """The file that defines or lists the names of a module: its stub, its __init__.py, or itself."""
    path = root.parent.joinpath(*module.split("."))
    files = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    return next(each for each in files if each.is_file())


def imports(root: Path, tree: ast.Module) -> dict[str, str]:
    """The names that a module imports from modules of the package, each with its module."""
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    own = [(node, node.module) for node in froms if node.module and node.module.partition(".")[0] == root.name]
    return {alias.name: module for node, module in own for alias in node.names}


def names(root: Path, module: str, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """The public names of a module and of its public modules, as users write them, each with a file that has it."""
    file = source(root, module)
    tree = ast.parse(file.read_text())
    for node in tree.body:
        if isinstance(node, DEFINITIONS) and not node.name.startswith("_"):
            yield prefix + node.name, file
    for name, origin in imports(root, tree).items():
        if origin == module:
            yield from names(root, f"{module}.{name}", f"{prefix}{name}.")
        else:
            yield prefix + name, source(root, origin)


def definition(root: Path, file: Path, name: str) -> tuple[Path, ast.ClassDef | Callable_] | None:
    """The class or function of that name that a file defines, imports, or has from the C types."""
    tree = ast.parse(file.read_text())
    for node in tree.body:
        if isinstance(node, DEFINITIONS) and node.name == name:
            return file, node
        if ast.unparse(node) == f"{name} = _native.{name}":
            return definition(root, root / "_native.pyi", name)
    origin = imports(root, tree).get(name)
    return definition(root, source(root, origin), name) if origin else None


def public(root: Path) -> Iterator[Public]:
    """Each public name, and the public methods of each class that it or its bases in the package define."""
    for name, file in names(root, root.name):
        if found := definition(root, file, name.rpartition(".")[2]):
            yield Public(name, *found)
            yield from methods(root, Public(name, *found))


def methods(root: Path, owner: Public) -> Iterator[Public]:
    """The public methods of a class and of its bases; properties have a result and no parameters, and are left out."""
    if not isinstance(owner.node, ast.ClassDef):
        return
    stubs = [each for part in owner.node.body if isinstance(part, ast.If) for each in part.body]  # "if TYPE_CHECKING:"
    every = [each for each in (*owner.node.body, *stubs) if isinstance(each, Callable_)]
    for each in every:
        decorators = {ast.unparse(decorator) for decorator in each.decorator_list}
        if not each.name.startswith("_") and not any(map(PROPERTY.fullmatch, decorators)):
            yield Public(f"{owner.name}.{each.name}", owner.path, each)
    own = {f"{owner.name}.{each.name}" for each in every}
    generic = (each.value if isinstance(each, ast.Subscript) else each for each in owner.node.bases)
    for base in map(ast.unparse, generic):
        file = root / "_native.pyi" if base.startswith("_native.") else owner.path
        if found := definition(root, file, base.removeprefix("_native.")):
            yield from (each for each in methods(root, Public(owner.name, *found)) if each.name not in own)


def faults(found: Public) -> Iterator[str]:
    """Each rule that a docstring breaks, in words."""
    text = ast.get_docstring(found.node) or ""
    if not text:
        yield "it has no docstring"
        return
    if found.name in EXAMPLES and "Examples\n--------" not in text:
        yield "it is among the names that users meet first; show its use in a section Examples"
    if isinstance(found.node, ast.ClassDef):
        begin = next((each for each in found.node.body if getattr(each, "name", "") == "__init__"), None)
        if isinstance(begin, ast.FunctionDef) and not _is_made_elsewhere(text):
            yield from _parameters(text, begin)
        return
    if NO_VERBS.match(text) or not text[0].isupper():
        yield f"its summary begins with {text.split()[0]!r}; begin with a verb: 'Return ...'"
    yield from _parameters(text, found.node)
    yield from _result(text, found.node)
    yield from _errors(text, found.node)


def _is_made_elsewhere(text: str) -> bool:
    """Whether a class is not for users to call: its docstring names the function that makes it."""
    return re.search(r"\b(Made|made|Created|created|Returned|returned) by\b", text) is not None


def _section(text: str, title: str) -> str:
    """The text under a title, up to the next one; empty if there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+( \w+)?\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def _parameters(text: str, node: Callable_) -> Iterator[str]:
    spec = node.args
    every = [*spec.posonlyargs, *spec.args, *([spec.vararg] if spec.vararg else []), *spec.kwonlyargs]
    wanted = [each.arg for each in every if each.arg not in ("self", "cls") and not each.arg.startswith("_")]
    section = _section(text, "Parameters")
    if len(wanted) < 2 and not section:
        return
    documented = {name.strip("* ") for line in re.findall(r"^\S.*$", section, re.MULTILINE) for name in line.split(",")}
    missing = [name for name in wanted if name not in documented]
    if missing:
        yield f"its section Parameters lacks {', '.join(missing)}"
    if extra := sorted(documented - set(wanted) - ({spec.kwarg.arg} if spec.kwarg else set())):
        yield f"its section Parameters has {', '.join(extra)}; the signature does not"


def _result(text: str, node: Callable_) -> Iterator[str]:
    result = ast.unparse(node.returns) if node.returns else ""
    if result in NOTHING or _section(text, "Returns") or _section(text, "Yields"):
        return
    count = len([each for each in [*node.args.args, *node.args.kwonlyargs] if each.arg not in ("self", "cls")])
    if count > 1 or not re.match(r"Returns? |Whether ", text):
        yield f"it returns {result}; say so in a section Returns"


def _errors(text: str, node: Callable_) -> Iterator[str]:
    section = _section(text, "Raises")
    raised = {
        ast.unparse(each.exc.func).rpartition(".")[2]
        for each in ast.walk(node)
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)
    }
    for name in sorted(raised - {"TypeError"}):
        if name.endswith(("Error", "Timeout")) and name not in section:
            yield f"it raises {name}; say when in a section Raises"


def findings(package: Path) -> list[str]:
    """All faults of a package, each once: classes share the methods of a base, and modules a name."""
    found = {(each.path, each.node.lineno, fault): each.name for each in public(package) for fault in faults(each)}
    return [
        f"{path.relative_to(package.parent)}:{line}: {name}: {fault}" for (path, line, fault), name in found.items()
    ]


def main() -> int:
    """Print the findings of vkshare."""
    found = findings(ROOT / "vkshare")
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

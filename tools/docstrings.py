#!/usr/bin/env python3
"""Check the docstrings of vkshare's public names: sections for parameters, results and errors, and examples.

    python tools/docstrings.py       the names of vkshare/__init__.pyi and their public members

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
    "open_receiver",
    "Device.create_surface",
    "Device.open_surface",
    "Device.create_fence",
    "Device.create_swapchain",
    "Device.record",
    "Surface.access",
    "Surface.export",
    "Surface.read",
    "Surface.write",
    "CommandList.draw_triangles",
    "CommandList.blit",
    "Fence.export",
    "Sender.frame",
    "Receiver.frame",
    "Swapchain.frame",
    "Window",
}
NO_VERBS = re.compile(r"(A|An|The|This|That|One|Its|Whether|Each|Every|As|For|Until|At|In|With|Same|How|Why|Where)\b")
NOTHING = {"None", "NoReturn", "Never", ""}

Callable_ = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Public:
    """A public function or method, or a class, by the name that users write."""

    name: str
    path: Path
    node: Callable_ | ast.ClassDef


def names(package: Path) -> Iterator[tuple[str, Path]]:
    """The public names of the package's stub, each with the module that defines it."""
    for node in ast.parse((package / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module != package.name:
            path = package.parent.joinpath(*node.module.split(".")).with_suffix(".py")
            yield from ((alias.name, path) for alias in node.names)


def public(package: Path) -> Iterator[Public]:
    """Each public name, and the public methods of each class that it or its bases in the package define."""
    for name, path in names(package):
        module = ast.parse(path.read_text())
        for node in module.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                yield Public(name, path, node)
                if isinstance(node, ast.ClassDef):
                    yield from methods(package, name, path, module, node)


def methods(package: Path, name: str, path: Path, module: ast.Module, node: ast.ClassDef) -> Iterator[Public]:
    """The public methods of a class and of its bases; properties have a result and no parameters, and are left out."""
    stubs = [each for part in node.body if isinstance(part, ast.If) for each in part.body]  # "if TYPE_CHECKING:"
    every = [*node.body, *stubs]
    own = {each.name for each in every if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for each in every:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not each.name.startswith("_"):
            decorators = {ast.unparse(decorator) for decorator in each.decorator_list}
            if not any(
                re.fullmatch(r"property|(functools\.)?cached_property|overload|.*\.setter", one) for one in decorators
            ):
                yield Public(f"{name}.{each.name}", path, each)
    for base in node.bases:
        for found in inherited(package, name, path, module, ast.unparse(base)):
            if found.name.rpartition(".")[2] not in own:
                yield found


def inherited(package: Path, name: str, path: Path, module: ast.Module, base: str) -> Iterator[Public]:
    """The public methods of a base class, from the module of the class or from the one that it imports."""
    if base.startswith("_native."):
        path, base = package / "_native.pyi", base.removeprefix("_native.")
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == base for alias in node.names):
            found = package.parent.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            path = found if found.is_file() else path
    tree = ast.parse(path.read_text())
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and each.name == base:
            yield from methods(package, name, path, tree, each)


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
    """All faults of a package, each once: classes share the methods of a base."""
    return list(
        dict.fromkeys(
            f"{found.path.relative_to(package.parent)}:{found.node.lineno}: {found.name}: {fault}"
            for found in public(package)
            for fault in faults(found)
        )
    )


def main() -> int:
    """Print the findings of vkshare."""
    found = findings(ROOT / "vkshare")
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

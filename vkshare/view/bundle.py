"""One JavaScript module of several: a notebook's widget is a single file, and shares its parts with the page."""

from __future__ import annotations

import importlib.resources
import re

_IMPORT = re.compile(r'^import (?P<what>\{[^}]*\}|\* as \w+) from "/(?P<module>\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (?P<name>\w+))", re.MULTILINE)


def widget() -> str:
    """Return the widget's module, whose default export is anywidget's."""
    return _with_modules(_read("notebook_page", "widget"), done={})


def style() -> str:
    """Return the widget's style sheet."""
    return importlib.resources.files("vkshare.view").joinpath("notebook_page", "widget.css").read_text("utf-8")


def _with_modules(text: str, done: dict[str, str]) -> str:
    """The text with the modules that it imports before it, each a constant of that name with what it exports."""
    body = _resolved(text, done)
    return "".join(done.values()) + body


def _resolved(text: str, done: dict[str, str]) -> str:
    """The text with constants in place of imports; `done` gets the modules, those that others need first."""

    def use(found: re.Match[str]) -> str:
        module = found["module"]
        if module not in done:
            done[module] = _module(module, done)
        what = found["what"]
        return f"const {what.removeprefix('* as ') if what.startswith('*') else what} = $_{module};\n"

    return _IMPORT.sub(use, text)


def _module(name: str, done: dict[str, str]) -> str:
    body = _resolved(_read("page", name), done)
    names = [found["name"] for found in _EXPORT.finditer(body)]
    return f"const $_{name} = (() => {{\n{_EXPORT.sub('', body)}return {{ {', '.join(names)} }};\n}})();\n"


def _read(folder: str, name: str) -> str:
    return importlib.resources.files("vkshare.view").joinpath(folder, f"{name}.js").read_text("utf-8")

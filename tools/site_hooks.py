"""Hooks of mkdocs.yml: how a page of docs/ is put on the site."""

from __future__ import annotations

import re

# A link that leaves docs/ leads to a source file, which the site does not have: its path stays, as
# code. tests/tools/test_citations.py checks that the file exists.
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#\s]*)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Turn links to files outside docs/ into the files' paths."""
    return _OUTSIDE.sub(_as_code, markdown)


def _as_code(link: re.Match[str]) -> str:
    words, path = link.groups()
    return words if path in words or "`" in words else f"{words} (`{path}`)"

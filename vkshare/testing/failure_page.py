"""One HTML page for all failures of a run: side by side, blinking, and as a heat map.

The page has its pictures within itself and no script: it is shown from the disk, and as a file that
a CI run keeps.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from string import Template

from vkshare.testing.failures import PAGE, Failure

_LEAST_WIDTH = 256  # CSS pixels: smaller pictures are shown larger, by a whole number


def update(results: Path, found: Sequence[Failure]) -> None:
    """Write the page of these failures, or delete it where there are none."""
    page = results / PAGE
    if not found:
        page.unlink(missing_ok=True)
        return
    template = Template(Path(__file__).with_name("assets").joinpath("failures.html").read_text())
    count = "1 picture differs" if len(found) == 1 else f"{len(found)} pictures differ"
    sections = "\n".join(_section(number, results, each) for number, each in enumerate(found))
    page.write_text(template.substitute(count=count, sections=sections))


def _section(number: int, results: Path, failure: Failure) -> str:
    where = f"{failure.folder}/{failure.level}/".replace("//", "/") if failure.level is not None else "no reference"
    head = (
        f"<section>\n<h2>{html.escape(failure.name)}</h2>\n"
        f'<p class="test">{html.escape(failure.test)} &middot; {html.escape(where)}</p>\n'
        f'<p class="text">{html.escape(failure.text)}</p>\n'
    )
    pictures = {
        what: _image(results / name, what)
        for what, name in (("expected", failure.expected), ("actual", failure.actual), ("heat map", failure.difference))
        if name is not None
    }
    if len(pictures) < 3:  # without a comparison nothing can blink
        return head + "".join(_figure("side", what, image) for what, image in pictures.items()) + "</section>"
    modes = {"side": "side by side", "blink": "blink", "actual": "actual", "heat": "heat map"}
    buttons = "".join(_button(number, mode, text) for mode, text in modes.items())
    side = "".join(_figure("side", what, image) for what, image in pictures.items())
    over = pictures["actual"].replace("<img ", '<img class="over" ', 1)
    caption = "expected and actual in turn; the pointer on the picture stops them"
    stack = f'<figure class="stack">{pictures["expected"]}{over}<figcaption>{caption}</figcaption></figure>\n'
    alone = _figure("alone", "actual", pictures["actual"]) + _figure("heat", "heat map", pictures["heat map"])
    return head + buttons + "<br>\n" + side + stack + alone + "</section>"


def _button(number: int, mode: str, text: str) -> str:
    checked = " checked" if mode == "side" else ""
    name = f"mode{number}"
    return (
        f'<input type="radio" name="{name}" id="{name}-{mode}" class="by-{mode}"{checked}>'
        f'<label for="{name}-{mode}">{text}</label>\n'
    )


def _figure(kind: str, caption: str, image: str) -> str:
    return f'<figure class="{kind}">{image}<figcaption>{caption}</figcaption></figure>\n'


def _image(path: Path, what: str) -> str:
    data = path.read_bytes()
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))  # of the PNG's header, IHDR
    scale = max(1, -(-_LEAST_WIDTH // width))
    source = base64.b64encode(data).decode()
    size = f'width="{width * scale}" height="{height * scale}"'
    return f'<img alt="{what}" {size} src="data:image/png;base64,{source}">'

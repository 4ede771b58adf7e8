"""A pytest plugin: pages in Debian's headless Chromium, which are clients of a view server."""

from __future__ import annotations

import base64
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.required_parts import need

WAIT = 30_000  # ms: only ends hangs
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
)
# Returns a part of the picture as RGBA, in base64: of the canvas, or of the video below it where that is seen.
_PIXELS = """async ([left, top, width, height]) => {
    let canvas = document.getElementById("picture");
    if (canvas.style.opacity === "0") {
        const video = canvas.parentNode.querySelector("video");
        const copy = new OffscreenCanvas(canvas.width, canvas.height);
        copy.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
        canvas = copy;
    }
    const data = canvas.getContext("2d").getImageData(left, top, width, height).data;
    const reader = new FileReader();
    const read = new Promise((done) => { reader.onload = () => done(reader.result); });
    reader.readAsDataURL(new Blob([data]));
    return (await read).split(",")[1];
}"""


def executable() -> str | None:
    """The path of Chromium, where it is installed."""
    return os.environ.get("VKSHARE_CHROMIUM") or shutil.which("chromium")


# For a module, because Playwright's event loop runs on the main thread meanwhile, where other tests run theirs.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser of a module's tests; a test that needs it is skipped where it is missing."""
    path = executable()
    need("chromium", path is not None, "Chromium is not installed (make system-deps)")
    need("chromium", importlib.util.find_spec("playwright") is not None, "Playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_FLAGS], timeout=WAIT)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Any]:
    """new_page(url, width=, height=, dark=): a page in a context of its own; errors of its scripts fail the test."""
    contexts: list[Any] = []
    errors: list[str] = []

    def make(url: str | None = None, *, width: int = 800, height: int = 600, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, ignore_https_errors=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: errors.append(str(error)))
        if url is not None:
            page.goto(url)
        return page

    yield make
    for context in contexts:
        context.close()
    assert errors == []


def until(page: Any, expression: str) -> None:
    """Wait until an expression of the page is true. wait_for_function() would need eval(), which the page forbids."""
    limit = time.monotonic() + WAIT / 1000
    while not _evaluated(page, expression):
        if time.monotonic() > limit:
            found = page.evaluate("JSON.stringify(document.documentElement.dataset)")
            raise AssertionError(f"{expression} does not become true; the page has {found}")
        page.wait_for_timeout(20)


def _evaluated(page: Any, expression: str) -> Any:
    """The value of an expression; None while another page is loaded."""
    from playwright.sync_api import Error

    try:
        return page.evaluate(expression)
    except Error as error:
        if "context was destroyed" not in str(error):
            raise
        return None


def shown(page: Any, count: int = 1) -> None:
    """Wait until the page has shown so many pictures."""
    until(page, f"Number(document.documentElement.dataset.frames || 0) >= {count}")


def state(page: Any, name: str) -> None:
    """Wait for a state of the page: connecting, shown, lost, refused, ended."""
    until(page, f'document.documentElement.dataset.state === "{name}"')


def pixels(page: Any) -> np.ndarray[Any, Any]:
    """The canvas as an array (height, width, 4)."""
    width, height = page.evaluate(
        '[document.getElementById("picture").width, document.getElementById("picture").height]'
    )
    rows = max(1, (1 << 22) // (4 * width))
    bands = []
    for top in range(0, height, rows):
        count = min(rows, height - top)
        raw = base64.b64decode(page.evaluate(_PIXELS, [0, top, width, count]))
        bands.append(np.frombuffer(raw, np.uint8).reshape(count, width, 4))
    return np.concatenate(bands)


def equals(page: Any, expected: np.ndarray[Any, Any], timeout: float = 30.0) -> np.ndarray[Any, Any]:
    """Wait until the canvas has exactly these colours (height, width, 3), and return it."""
    limit = time.monotonic() + timeout
    while True:
        found = pixels(page)
        if found.shape[:2] == expected.shape[:2] and np.array_equal(found[..., :3], expected[..., :3]):
            return found
        if time.monotonic() > limit:
            size = found.shape[:2]
            where = (
                np.argwhere((found[..., :3] != expected[..., :3]).any(-1))[:3] if size == expected.shape[:2] else size
            )
            raise AssertionError(f"the canvas differs, first at {where}: {found.shape} against {expected.shape}")
        page.wait_for_timeout(20)

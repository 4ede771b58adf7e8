"""The files of the page, and the header fields that keep a browser from doing more with them."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass

# path -> name in vkshare/view/page, and its type. No other path exists.
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in (
            *("main", "connection", "input", "layout", "messages"),
            *("player", "screen", "status", "tiles", "video"),
        )
    },
}

# No inline script or style, no other server, no frame around the page, no plug-in, no form.
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class PageFile:
    """A file as it is served."""

    content_type: str
    body: bytes


def load() -> dict[str, PageFile]:
    """Return the page's files by their paths."""
    folder = importlib.resources.files("vkshare.view").joinpath("page")
    return {path: PageFile(kind, folder.joinpath(name).read_bytes()) for path, (name, kind) in _FILES.items()}

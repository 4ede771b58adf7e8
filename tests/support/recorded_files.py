"""Recordings as their readers see them: pixels and times, by PyAV and Pillow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from support.required_parts import need

_MKV = {"rgba8unorm": "bgra", "bgra8unorm": "bgra", "rg8unorm": "bgra", "r8unorm": "gray"}
_MKV |= {"r16unorm": "gray16le", "rgba16unorm": "rgba64le"}


def need_av() -> Any:
    """Skip the calling test where PyAV is missing; fail it where it is required."""
    need("av", importlib.util.find_spec("av") is not None, "PyAV is missing: pip install vkshare[video]")
    import av

    return av


def pixels_of(path: Path, form: str) -> list[np.ndarray[Any, Any]]:
    """The pixels of each frame as surfaces of that format have them; a PNG sequence in the order of its numbers."""
    if path.suffix == ".png":
        stem, _, _ = path.stem.partition("%")
        files = [path] if path.exists() else list(path.parent.glob(f"{stem}*.png"))
        files.sort(key=lambda each: int(each.stem.removeprefix(stem) or 0))
        return [_as_surface(picture, form) for each in files for picture in _decoded(each, _png_format(form))]
    return [_as_surface(each, form) for each in _decoded(path, _MKV.get(form, "rgba"))]


def colours_of(path: Path) -> list[np.ndarray[Any, Any]]:
    """RGB of each frame of a video. Without alpha: swscale's last columns are wrong in RGBA."""
    return _decoded(path, "rgb24")


def _png_format(form: str) -> str:
    return {"r8unorm": "gray", "r16unorm": "gray16be", "rgba16unorm": "rgba64be"}.get(form, "bgra")


def _decoded(path: Path, form: str) -> list[np.ndarray[Any, Any]]:
    av = need_av()
    with av.open(str(path)) as file:
        return [each.to_ndarray(format=form) for each in file.decode(video=0)]


def _as_surface(pixels: np.ndarray[Any, Any], form: str) -> np.ndarray[Any, Any]:
    if pixels.ndim == 2:
        return pixels[..., None]
    if form in ("rgba8unorm", "rg8unorm"):  # decoded as BGRA
        return pixels[..., [2, 1, 0, 3]][..., : {"rg8unorm": 2}.get(form, 4)]
    return pixels


def boxes(path: Path) -> list[str]:
    """The names of an .mp4's parts, in their order."""
    data, names, at = path.read_bytes(), [], 0
    while at < len(data):
        size, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8].decode("latin-1")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16])
        names.append(name)
        at += size or len(data)
    return names


def shown_at(path: Path) -> list[float]:
    """The time of each frame, in seconds."""
    av = need_av()
    with av.open(str(path)) as file:
        return [each.time for each in file.decode(video=0)]

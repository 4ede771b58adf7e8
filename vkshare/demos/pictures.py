"""Picture files: the one on the cube, and the one that the checker writes."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image, ImageOps

import vkshare


def texture(device: vkshare.Device, path: str | None, side: int) -> vkshare.Surface:
    """The middle square of a picture file as a surface of that side, owned. None: the picture that ships.

    Raises
    ------
    OSError
        It cannot be read, or is no picture that Pillow knows.
    """
    if path is not None:
        pixels = _square(path, side)
    else:
        with resources.files("vkshare.demos").joinpath("assets/picture.png").open("rb") as file:
            pixels = _square(file, side)
    surface = device.create_surface(side, side, "rgba8unorm")
    surface.acquire(0)
    surface.write(pixels)
    return surface


def _square(source: str | IO[bytes], side: int) -> Any:
    with Image.open(source) as opened:
        image = ImageOps.exif_transpose(opened).convert("RGBA")
    # Transparent pixels become white, so that the cube stays solid.
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(ImageOps.fit(image, (side, side), Image.Resampling.LANCZOS))


def save(pixels: Any, path: str) -> None:
    """Writes (H, W, 4) uint8 pixels without their alpha, in the format that the name's ending says."""
    Image.fromarray(pixels[..., :3]).save(path)


def check_readable(path: str) -> None:
    """OSError that names the file if it is no picture that Pillow can open."""
    with Image.open(path):
        pass


def check_writable(path: str) -> None:
    """ValueError or OSError, before any work, where save() would fail for sure."""
    ending = Path(path).suffix.lower()
    kinds = Image.registered_extensions()
    if ending not in kinds or kinds[ending] not in Image.SAVE:
        raise ValueError(f"the picture's name {path!r} must end in .png, .webp, .jpg or another that Pillow writes")
    if not Path(path).resolve().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path!r} does not exist; make it first")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path!r} is a folder")
    if not os.access(path if Path(path).exists() else Path(path).resolve().parent, os.W_OK):
        raise PermissionError(f"{path!r} may not be written")

"""Paints picture.png, the picture that the demo's cube bears: run `python paint.py` here to make it again."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 512
FINE = 3  # painted so many times larger, then reduced
PAPER = [(255, 250, 240), (255, 236, 214), (255, 214, 190)]
DISCS = [(70, 206, 232), (255, 190, 72), (250, 104, 150)]  # renderer, text, checker


def main() -> None:
    size = SIDE * FINE
    image = gradient(size)
    centre = (size * 0.5, size * 0.515)
    for index, colour in enumerate(DISCS):
        angle = -math.pi / 2 + index * 2 * math.pi / 3
        at = (centre[0] + math.cos(angle) * size * 0.135, centre[1] + math.sin(angle) * size * 0.135)
        image = disc(image, at, size * 0.205, colour)
    image = frame(image)
    small = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    small.quantize(192, dither=Image.Dither.FLOYDSTEINBERG).save(Path(__file__).with_name("picture.png"), optimize=True)


def gradient(size: int) -> Image.Image:
    y, x = np.mgrid[0:size, 0:size] / size
    along = np.clip(0.25 * x + 0.75 * y, 0, 1)
    stops = np.linspace(0, 1, len(PAPER))
    channels = [np.interp(along, stops, [colour[c] for colour in PAPER]) for c in range(3)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


def disc(image: Image.Image, at: tuple[float, float], radius: float, colour: tuple[int, int, int]) -> Image.Image:
    """Multiplied over what is there, so that discs mix where they overlap, as inks do."""
    mask = Image.new("L", image.size, 0)
    box = (at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius)
    ImageDraw.Draw(mask).ellipse(box, fill=255)
    base = np.asarray(image, float) / 255
    ink = base * (np.array(colour) / 255)
    alpha = np.asarray(mask, float)[..., None] / 255 * 0.96
    return Image.fromarray(((base * (1 - alpha) + ink * alpha) * 255).astype(np.uint8))


def frame(image: Image.Image) -> Image.Image:
    """A light border, as a print has."""
    size = image.size[0]
    border = Image.new("L", image.size, 255)
    inset = size * 0.045
    ImageDraw.Draw(border).rounded_rectangle((inset, inset, size - inset, size - inset), size * 0.07, fill=0)
    border = border.filter(ImageFilter.GaussianBlur(FINE * 0.5))
    return Image.composite(Image.new("RGB", image.size, (255, 250, 240)), image, border)


if __name__ == "__main__":
    main()

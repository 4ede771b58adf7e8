"""The ways to judge a picture against its reference: exactly, by a tolerance, by SSIM or by FLIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError
from vkshare.testing.pictures import difference_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_WINDOW = 7  # pixels: the window of SSIM, less in smaller pictures


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for one picture."""

    is_close: bool
    text: str  # how far it is off, with the limit
    sizes: Array | None = None  # (H, W), the difference of each pixel; None where it passed


@dataclass(frozen=True, slots=True)
class Way:
    """A way to judge, and its limit. At most one of tolerance, ssim and flip is given; none: exactly."""

    tolerance: float | None = None
    differing: float = 0.0
    ssim: float | None = None
    flip: float | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("tolerance", "ssim", "flip") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given; a picture is judged in one way")
        for name in ("ssim", "flip"):
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit <= 1:
                raise ValueError(f"{name} is {limit}; allowed are 0 to 1")
        if (self.tolerance or 0) < 0 or not 0 <= self.differing < 1:
            raise ValueError(f"tolerance is {self.tolerance} and differing {self.differing}; allowed are 0 and more")
        if self.differing and (self.ssim is not None or self.flip is not None):
            raise ValueError("differing goes with a tolerance, not with ssim or flip")

    def judge(self, got: Array, wanted: Array) -> Judgement:
        """Return the judgement of a picture against its reference, both (H, W, C).

        UnsupportedError: SSIM or FLIP is wanted, and the library is not installed.
        """
        import numpy as np

        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            text = f"the picture is {got.shape} of {got.dtype}, the reference {wanted.shape} of {wanted.dtype}"
            return Judgement(False, text, np.ones(got.shape[:2]))
        metric = _ssim_of if self.ssim is not None else _flip_of if self.flip is not None else None
        if metric is not None:
            metric.check()  # a missing library is noticed although the pictures are equal
        if np.array_equal(got, wanted):
            return Judgement(True, "equal")
        if self.ssim is not None:
            return _by_ssim(got, wanted, self.ssim)
        if self.flip is not None:
            return _by_flip(got, wanted, self.flip)
        return _by_tolerance(got, wanted, self.tolerance or 0, self.differing)


def _by_tolerance(got: Array, wanted: Array, tolerance: float, differing: float) -> Judgement:
    import numpy as np

    sizes = difference_of(got, wanted).max(axis=2)
    bad = ~(sizes <= tolerance)  # NaN is never close
    if bad.mean() <= differing:
        return Judgement(True, f"{int(bad.sum())} of {bad.size} pixels differ by more than {tolerance}")
    y, x = (int(n) for n in np.argwhere(bad)[0])
    found = f"{int(bad.sum())} of {bad.size} pixels differ by more than {tolerance}, at most by {sizes.max()}"
    return Judgement(False, f"{found}; first at x {x}, y {y}: {got[y, x]} in place of {wanted[y, x]}", sizes)


class _Metric:
    """A library that measures differences; it is loaded on first use."""

    def __init__(self, module: str, what: str, package: str, extra: str) -> None:
        self._module, self._what, self._package, self._extra = module, what, package, extra

    def check(self) -> Any:
        """Return the module; UnsupportedError names the extra that has it."""
        import importlib

        try:
            return importlib.import_module(self._module)
        except ImportError as error:
            why, hint = f"{self._package} cannot be imported ({error})", f"pip install 'vkshare[{self._extra}]'"
            raise UnsupportedError(f"to judge pictures by {self._what}", why, hint) from error


_ssim_of = _Metric("skimage.metrics", "SSIM", "scikit-image", "ssim")
_flip_of = _Metric("flip_evaluator", "FLIP", "flip-evaluator", "flip")


def _by_ssim(got: Array, wanted: Array, limit: float) -> Judgement:
    """The mean over the channels. A channel that is equal has 1, and is not computed."""
    import numpy as np

    metrics = _ssim_of.check()
    got, wanted = _channels(got), _channels(wanted)
    window = min(_WINDOW, *(side - 1 + side % 2 for side in got.shape[:2]))
    if window < 3:
        raise ValueError(f"SSIM needs 3 pixels in each direction; the picture has {got.shape[1]}x{got.shape[0]}")
    extent = 255.0 if wanted.dtype == np.uint8 else max(1.0, float(np.ptp(wanted)))
    values, least = [], np.ones(got.shape[:2])
    for channel in range(got.shape[2]):
        left, right = (np.asarray(each[:, :, channel], np.float32) for each in (wanted, got))
        if np.array_equal(left, right):
            values.append(1.0)
            continue
        value, similar = metrics.structural_similarity(left, right, data_range=extent, win_size=window, full=True)
        values.append(float(value))
        least = np.minimum(least, similar)
    mean = sum(values) / len(values)
    text = f"SSIM is {mean:.5f}, at least {limit} is wanted"
    # NaN, which a picture with NaN has, is no similarity.
    return Judgement(True, text) if mean >= limit else Judgement(False, text, np.clip(1 - least, 0, 2))


def _channels(pixels: Array) -> Array:
    """The channels of packed 10-bit pixels as 0 to 1; other pixels are returned as they are."""
    import numpy as np

    if pixels.dtype != np.uint32 or pixels.shape[2] != 1:
        return pixels
    shifts, most = np.array([0, 10, 20, 30], np.uint32), np.array([1023, 1023, 1023, 3], np.uint32)
    return np.asarray(((pixels >> shifts) & most) / most.astype(np.float32), np.float32)


def _by_flip(got: Array, wanted: Array, limit: float) -> Judgement:
    """The mean FLIP error. Pictures with transparency are judged over black and over white, and the worse one counts.

    Bytes and 10-bit pixels are taken as sRGB (LDR-FLIP), floats as linear values (HDR-FLIP). Alpha is premultiplied.
    """
    import numpy as np

    evaluator = _flip_of.check()
    dynamic_range = "HDR" if wanted.dtype.kind == "f" else "LDR"
    worst, sizes = -1.0, np.zeros(got.shape[:2])
    opaque = all(_is_opaque(each) for each in (got, wanted))
    for background in (0.0,) if opaque else (0.0, 1.0):
        sides = [_over(each, background) for each in (wanted, got)]
        errors, mean, _ = evaluator.evaluate(*sides, dynamic_range, applyMagma=False, computeMeanError=True)
        worst = max(worst, float(mean))
        sizes = np.maximum(sizes, np.asarray(errors).reshape(sizes.shape))
    text = f"the mean FLIP error is {worst:.5f}, at most {limit} is allowed"
    return Judgement(True, text) if worst <= limit else Judgement(False, text, sizes)


def _is_opaque(pixels: Array) -> bool:
    pixels = _as_floats(pixels)
    return pixels.shape[2] != 4 or bool((pixels[:, :, 3] == 1).all())


def _as_floats(pixels: Array) -> Array:
    import numpy as np

    pixels = _channels(pixels)
    return np.asarray(pixels / np.float32(255) if pixels.dtype == np.uint8 else pixels, np.float32)


def _over(pixels: Array, background: float) -> Array:
    """Return RGB floats: grey in all three channels, two channels as red and green, RGBA over the background."""
    import numpy as np

    values = np.maximum(_as_floats(pixels), 0)
    count = values.shape[2]
    if count == 1:
        values = np.repeat(values, 3, axis=2)
    elif count == 2:
        values = np.dstack([values, np.zeros_like(values[:, :, 0])])
    elif count == 4:
        values = values[:, :, :3] + (1 - np.minimum(values[:, :, 3:], 1)) * np.float32(background)
    return np.ascontiguousarray(values)

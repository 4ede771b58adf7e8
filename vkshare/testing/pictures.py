"""Pictures compared; on a difference, what was expected, what came, and where they differ, as files to look at."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def assert_images_equal(actual: Any, expected: Any, name: str = "") -> None:
    """Fails unless all values of both pictures are equal; NaN never is.

    Parameters
    ----------
    actual, expected, name
        As of assert_images_close().

    Raises
    ------
    AssertionError
        As assert_images_close(), with a tolerance of 0.
    """
    assert_images_close(actual, expected, 0, name)


def assert_images_close(
    actual: Any, expected: Any, tolerance: float = 0, name: str = "", *, differing: float = 0.0
) -> None:
    """Fails unless both pictures agree.

    Parameters
    ----------
    actual, expected
        (H, W, C) or (H, W) arrays, or anything NumPy takes as one, a View included. Shape and dtype must be equal.
    tolerance
        How far a channel may be off, in the arrays' own unit: 2 means 2/255 for uint8.
    name
        Of the files that are written on failure; default: the running test's.
    differing
        Fraction of the pixels that may be off by more.

    Raises
    ------
    AssertionError
        Tells how many pixels differ, how far, and where first, and names the files NAME-expected, NAME-actual and
        NAME-difference (PNG with Pillow, else .npy), in the folder VKSHARE_TEST_PICTURES, else build/pictures.
    """
    import numpy as np

    got, wanted = np.asarray(actual), np.asarray(expected)
    __tracebackhide__ = True
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise AssertionError(
            f"actual is {got.shape} of {got.dtype}, expected is {wanted.shape} of {wanted.dtype}: not to be compared"
        )
    difference = difference_of(got, wanted)
    bad = ~(difference <= tolerance)  # NaN is never close
    pixels = bad.any(axis=-1) if bad.ndim == 3 else bad
    if pixels.mean() <= differing if pixels.size else True:
        return
    y, x = (int(i) for i in np.argwhere(pixels)[0])
    files = _write(name or _test_name(), got, wanted, difference)
    raise AssertionError(
        f"{int(pixels.sum())} of {pixels.size} pixels differ by more than {tolerance}, at most by {difference.max()}; "
        f"first at x {x}, y {y}: {got[y, x]} in place of {wanted[y, x]}; see {', '.join(map(str, files))}"
    )


def difference_of(got: Array, wanted: Array) -> Array:
    """Return how far each channel of each pixel is off; NaN where one is NaN."""
    import numpy as np

    if got.dtype == np.uint32:  # rgb10a2: by channel, or a carry would look like a large difference
        shifts, masks = np.array([0, 10, 20, 30]), np.array([1023, 1023, 1023, 3])
        channels = [(a.astype(np.int64) >> shifts) & masks for a in (got, wanted)]
        return np.asarray(np.abs(channels[0] - channels[1]))
    exact = np.float64 if np.issubdtype(got.dtype, np.floating) else np.int64
    with np.errstate(invalid="ignore"):
        difference = np.abs(got.astype(exact) - wanted.astype(exact))
    return np.asarray(np.where(got == wanted, exact(0), difference))  # infinity minus itself is NaN


def _test_name() -> str:
    """Returns test_view-test_y-cpu for "tests/rules/core/test_view.py::test_y[cpu] (call)"."""
    running = os.environ.get("PYTEST_CURRENT_TEST", "picture").split(" ")[0]
    return re.sub(r"[^\w.]+", "-", Path(running).name.replace(".py", "")).strip("-")


def _write(name: str, got: Array, wanted: Array, difference: Array) -> list[Path]:
    folder = Path(os.environ.get("VKSHARE_TEST_PICTURES") or "build/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    largest = difference.max()
    scaled = difference / largest if largest > 0 else difference  # the worst pixel is white
    pictures = {"expected": wanted, "actual": got, "difference": scaled}
    return [_write_one(folder / f"{name}-{what}", picture) for what, picture in pictures.items()]


def _write_one(path: Path, picture: Array) -> Path:
    from vkshare.testing import picture_files

    for suffix in picture_files.SUFFIXES:
        file = path.with_name(path.name + suffix)
        try:
            picture_files.save(file, picture)
        except UnsupportedError:  # without Pillow
            continue
        break
    return file

"""How the demo's scene is lit: a warm key light from the upper left, a violet fill from the right, and the sky."""

from __future__ import annotations

import numpy as np

from vkshare.demos.solids import Array

EYE = np.array([0.0, 0.95, 7.4], np.float32)


def _direction(x: float, y: float, z: float) -> Array:
    return np.array([x, y, z], np.float32) / np.float32(np.sqrt(x * x + y * y + z * z))


_KEY = _direction(-0.46, 0.66, 0.60)
KEY_COLOUR = np.array([1.0, 0.96, 0.90], np.float32)
_FILL = _direction(0.80, 0.05, 0.60)
_FILL_COLOUR = np.array([0.46, 0.34, 0.62], np.float32)
_AMBIENT = np.array([0.30, 0.29, 0.37], np.float32)
_GLOSS, _SHARPNESS = 0.55, 48
_SHEEN = 0.16  # what a surface mirrors of the sky where one looks along it


def lit(world: Array, normals: Array) -> tuple[Array, Array]:
    """Blinn and Phong's model at vertices (V, 3) with unit normals.

    Returns
    -------
    The diffuse reflection of each, (V, 3), 0 to 1; and the specular one, (V,), to be added in KEY_COLOUR.
    """
    to_eye = EYE - world
    to_eye /= np.sqrt((to_eye * to_eye).sum(1, keepdims=True))
    key = np.maximum(normals @ _KEY, 0)
    fill = np.maximum(normals @ _FILL, 0)
    diffuse = _AMBIENT + key[:, None] * (0.80 * KEY_COLOUR) + fill[:, None] * (0.70 * _FILL_COLOUR)
    halfway = to_eye + _KEY
    facing = (normals * halfway).sum(1) / np.sqrt((halfway * halfway).sum(1))
    shine = _GLOSS * np.maximum(facing, 0) ** _SHARPNESS
    sheen = _SHEEN * np.clip(1 - (normals * to_eye).sum(1), 0, 1) ** 4
    return np.minimum(diffuse, 1), shine + sheen

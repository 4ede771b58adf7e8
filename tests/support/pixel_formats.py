"""Formats by what they have: for tests that each format takes part in."""

from __future__ import annotations

from vkshare.formats import FORMATS

ONE_PLANE = tuple(name for name, each in FORMATS.items() if not each.is_planar)
WITHOUT_DEPTH = tuple(name for name in ONE_PLANE if not FORMATS[name].is_depth)
PLANAR = tuple(name for name, each in FORMATS.items() if each.is_planar)

"""Engines that other projects make, with their own types over vkshare's surfaces: one module an engine."""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = sorted(_public.modules)

__getattr__, __dir__ = _public.load, _public.names

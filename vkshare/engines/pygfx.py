"""pygfx: surfaces are its textures, to render scenes into and to put on its objects.

    vks.engines.enable()
    device = vks.engines.pygfx.open()
    surface = device.create_surface(640, 480, "rgba8unorm-srgb")
    renderer = pygfx.renderers.WgpuRenderer(vks.engines.pygfx.texture(surface))

pygfx draws with one wgpu device, which all its renderers share; ``open()`` is
``vks.engines.wgpu.open()`` of that one. Needs pygfx 0.17 or later (``vkshare[engines]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vkshare.engines.wgpu as engine
from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    import pygfx

    from vkshare.core.device import Device
    from vkshare.core.surface import Surface

__all__ = ["open", "texture"]


def open(name: str = "pygfx") -> Device:
    """Opens a Device on the wgpu device that pygfx draws with, which is made where pygfx has none yet.

    Parameters
    ----------
    name
        Shown by ``vkshare ps``.

    Returns
    -------
    Device
        As ``vkshare.engines.wgpu.open()`` returns it.

    Raises
    ------
    UnsupportedError
        pygfx is not installed, ``vkshare.engines.enable()`` was not called first, or the driver
        lacks what vkshare needs.

    Examples
    --------
    >>> vks.engines.enable()  # doctest: +SKIP
    >>> device = vks.engines.pygfx.open()  # doctest: +SKIP
    """
    return engine.open(_package().renderers.wgpu.get_shared().device, name)


def texture(surface: Surface) -> pygfx.Texture:
    """Makes a pygfx.Texture that is the surface's image: a renderer's target, or a map on an object.

    Render inside ``with surface.access(...)`` wherever a renderer's target, or its scene, has the
    texture. Its colorspace follows the format: "tex-srgb" for ``-srgb``, "physical" for floats, else
    "srgb". pygfx writes linear colours into a target, so a picture for people needs a ``-srgb``
    surface. Any thread may call this.

    Parameters
    ----------
    surface
        A surface of a Device that ``open()`` returned.

    Returns
    -------
    pygfx.Texture
        pygfx's own type, without data on the CPU.

    Raises
    ------
    InvalidCallError, UnsupportedError, ClosedError
        As ``vkshare.engines.wgpu.texture()`` raises them.

    Examples
    --------
    >>> texture = vks.engines.pygfx.texture(surface)  # doctest: +SKIP
    """
    package, made = _package(), engine.texture(surface)
    kind = surface.spec.format
    colorspace = "tex-srgb" if kind.is_srgb else "physical" if kind.dtype.startswith("float") else "srgb"
    size = surface.width, surface.height, 1
    shown = package.Texture(dim=2, size=size, format=made.format, colorspace=colorspace, usage=int(made.usage))
    shown._wgpu_object = made
    return shown


def _package() -> Any:
    try:
        import pygfx
        import pygfx.renderers.wgpu
    except ImportError as error:
        raise UnsupportedError("pygfx", f"it cannot be imported: {error}", "pip install 'vkshare[engines]'") from None
    return pygfx

"""The engines that draw by OpenGL or by the CPU, behind one interface: an Artist draws into a box of a surface."""

from __future__ import annotations

import importlib
import math
import os
from contextlib import ExitStack
from typing import Any

import vkshare
from vkshare.interop.gl import GLSurface
from vkshare.util.closing import Scoped

Box = tuple[int, int, int, int]  # x, y, width, height in pixels, y downwards

_PANDA3D = (
    "load-display p3headlessgl",
    "window-type offscreen",
    "audio-library-name null",
    "print-pipe-types false",
    "notify-level error",
    "notify-level-device fatal",  # it looks for joysticks
)
TURN = 60  # frames of a revolution


def angle(number: int) -> float:
    """Radians, of a frame's number."""
    return 2 * math.pi * number / TURN


class Artist(Scoped):
    """An engine and a vkshare.Device for its pictures. Closes both."""

    draws_parts = True  # False: a picture of the engine is always a whole surface

    def __init__(self, adapter: bytes, size: tuple[int, int]) -> None:
        self.size = size  # of the whole surfaces that it draws
        self.copies = 0  # that were made since the start, on the GPU or by the CPU
        self._stack = ExitStack()
        try:
            self.device = self._open(adapter)
            self._stack.callback(self.device.close)
            self._begin()
        except BaseException:
            self._stack.close()
            raise

    def _open(self, adapter: bytes) -> vkshare.Device:
        return vkshare.open(adapter, name=type(self).__name__.lower())

    def _begin(self) -> None:
        """Start the engine; the stack ends it."""

    def take(self, surface: vkshare.Surface) -> Any:
        """Return what has access() for the engine's turns on the surface. The stack closes it."""
        return surface

    def draw(self, view: Any, taken: Any, box: Box, number: int) -> None:
        """Draw frame `number` into the box, inside an access of what take() returned."""
        raise NotImplementedError

    def submit(self, taken: Any) -> None:
        """Do for drawing outside turns what the engine itself does at the end of its frame."""

    def close(self) -> None:
        """Ends engine and device."""
        self._stack.close()


# ---- OpenGL --------------------------------------------------------------------------------------------------------


class _GLArtist(Artist):
    def take(self, surface: vkshare.Surface) -> GLSurface:
        return self._stack.enter_context(vkshare.interop.gl.open(surface))

    def submit(self, taken: GLSurface) -> None:
        gl = taken._require_here().gl
        if taken.order == "gpu":
            gl.glFlush()
        else:
            gl.glFinish()  # a turn ends so on this driver


class ModernGL(_GLArtist):
    """Rings by a fragment shader, straight into the surface."""

    _VERTEX = """
    #version 330
    void main() { gl_Position = vec4((gl_VertexID & 1) * 4 - 1, (gl_VertexID & 2) * 2 - 1, 0, 1); }
    """
    _RINGS = """
    #version 330
    uniform vec4 box;
    uniform float angle;
    out vec4 colour;
    void main() {
        float far = length(gl_FragCoord.xy - box.xy - box.zw / 2) / box.w;
        colour = vec4(mix(vec3(0.05, 0.1, 0.3), vec3(0.2, 0.7, 0.9), 0.5 + 0.5 * sin(far * 40 - angle)), 1);
    }
    """

    def _begin(self) -> None:
        moderngl: Any = importlib.import_module("moderngl")
        self._stack.enter_context(vkshare.interop.gl.egl_context(self.device))
        self._context = moderngl.get_context()
        self._program = self._context.program(vertex_shader=self._VERTEX, fragment_shader=self._RINGS)
        self._shape = self._context.vertex_array(self._program, [])
        self._framebuffers: dict[GLSurface, Any] = {}

    def draw(self, view: Any, taken: GLSurface, box: Box, number: int) -> None:
        if taken not in self._framebuffers:
            self._framebuffers[taken] = vkshare.engines.moderngl.framebuffer(taken)
        target = self._framebuffers[taken]
        target.use()
        target.viewport = target.scissor = box
        self._program["box"] = box
        self._program["angle"] = angle(number)
        self._shape.render(vertices=3)


class Pyglet(_GLArtist):
    """Shapes and a label, straight into the surface."""

    def _begin(self) -> None:
        pyglet: Any = importlib.import_module("pyglet")
        pyglet.options.headless = True
        importlib.import_module("pyglet.window")
        importlib.import_module("pyglet.shapes")
        self._pyglet = pyglet
        self._window = pyglet.window.Window(64, 64, "pyglet")
        self._stack.callback(self._window.close)

    def draw(self, view: Any, taken: GLSurface, box: Box, number: int) -> None:
        shapes = self._pyglet.shapes
        x, y, width, height = box
        bottom = taken.surface.height - y - height  # pyglet's y goes upwards
        with vkshare.engines.pyglet.drawing(view, self._window):
            shapes.Rectangle(x, bottom, width, height, color=(40, 60, 40)).draw()
            star = shapes.Star(
                x + width / 2, bottom + height / 2, height * 0.42, height * 0.2, 7, math.degrees(angle(number)) / 7
            )
            star.color = (250, 200, 60)
            star.draw()
            shapes.Rectangle(x, bottom, width, height // 12, color=(40, 90, 200)).draw()


class Panda3D(_GLArtist):
    """A turning cube, which Panda3D renders into a texture of its own."""

    draws_parts = False

    def _begin(self) -> None:
        core: Any = importlib.import_module("panda3d.core")
        for line in _PANDA3D:
            core.loadPrcFileData("", line)
        base = self._base = importlib.import_module("direct.showbase.ShowBase").ShowBase()
        self._stack.callback(base.destroy)
        self._scene = core.Texture("scene")
        buffer = base.win.makeTextureBuffer("scene", *self.size, self._scene)
        buffer.setClearColor((0.25, 0.12, 0.2, 1))
        camera = base.makeCamera(buffer, lens=base.camLens)
        camera.setPos(0, -3.2, 0)
        base.camLens.setAspectRatio(self.size[0] / self.size[1])
        self._pivot = base.render.attachNewNode("pivot")
        box = base.loader.loadModel("models/box")
        box.reparentTo(self._pivot)
        box.setPos(-0.5, -0.5, -0.5)
        base.graphicsEngine.renderFrame()  # its context is current from now on

    def draw(self, view: Any, taken: GLSurface, box: Box, number: int) -> None:
        self._pivot.setHpr(math.degrees(angle(number)), 20, 10)
        self._base.graphicsEngine.renderFrame()
        self.copies += 1
        vkshare.engines.panda3d.copy_from(view, self._scene, self._base.win)


class VTK(_GLArtist):
    """A turning cone, by PyVista."""

    draws_parts = False

    def _begin(self) -> None:
        os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", "vtkEGLRenderWindow")  # it needs no display
        pyvista: Any = importlib.import_module("pyvista")
        plotter = self._plotter = pyvista.Plotter(off_screen=True, window_size=self.size)
        self._stack.callback(plotter.close)
        plotter.set_background("midnightblue")
        plotter.renderer.SetBackgroundAlpha(1)
        self._cone = plotter.add_mesh(pyvista.Cone(height=1.4, radius=0.6, resolution=24), color="seagreen")
        plotter.camera_position = [(0, -0.6, 4.2), (0, 0, 0), (0, 1, 0)]
        plotter.show(auto_close=False)
        plotter.render_window.MakeCurrent()

    def draw(self, view: Any, taken: GLSurface, box: Box, number: int) -> None:
        self._cone.orientation = (0, 0, math.degrees(angle(number)))
        self._plotter.render_window.Render()
        self.copies += 1
        vkshare.engines.vtk.copy_from(view, self._plotter.render_window)


# ---- the CPU -------------------------------------------------------------------------------------------------------


class Matplotlib(Artist):
    """A curve by Agg, whose picture the CPU writes into the surface."""

    draws_parts = False

    def _begin(self) -> None:
        self._agg: Any = importlib.import_module("matplotlib.backends.backend_agg")
        self._figures: Any = importlib.import_module("matplotlib.figure")
        self._x = [each / 20 for each in range(201)]
        self._plots = {self.size: self._plot(self.size)}

    def _plot(self, size: tuple[int, int]) -> tuple[Any, Any]:
        made = self._figures.Figure((size[0] / 100, size[1] / 100), 100, facecolor="white")
        canvas = self._agg.FigureCanvasAgg(made)
        axes = made.add_axes((0.1, 0.15, 0.85, 0.75))
        (line,) = axes.plot(self._x, [math.sin(each) for each in self._x], color="tab:blue")
        return canvas, line

    def draw(self, view: Any, taken: vkshare.Surface, box: Box, number: int) -> None:
        import numpy as np

        if box[2:] not in self._plots:
            self._plots[box[2:]] = self._plot(box[2:])
        canvas, line = self._plots[box[2:]]
        line.set_ydata([math.sin(each + angle(number)) for each in self._x])
        canvas.draw()
        self.copies += 1
        taken.write(np.asarray(canvas.buffer_rgba()))

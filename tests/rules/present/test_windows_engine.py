"""An engine's own windows on X11 as targets: GLFW windows of the glfw package, and VkSurfaceKHRs."""

from __future__ import annotations

import ctypes

import pytest
from support.private_displays import XDisplay, run_child
from support.window_child import START
from support.window_loss import X_HANDLERS

import vkshare as vks

pytest_plugins = ["support.private_displays", "support.present_policies"]
pytestmark = [pytest.mark.slow, pytest.mark.rule("A24")]

_ENGINE = (
    START
    + X_HANDLERS
    + """
    import glfw
    glfw.init()
    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    theirs = glfw.create_window(96, 64, "engine", None, None)
    before = handlers()
    def on_screen(picture):
        seen(os.environ["DISPLAY"], glfw.get_x11_window(theirs), picture)
    def resized(width, height):
        glfw.set_window_size(theirs, width, height)
        wait_until(lambda: glfw.poll_events() or tuple(glfw.get_framebuffer_size(theirs)) == (width, height), "resized")
"""
)
_SURFACE = """
    def surface_of(device):
        from vkshare.backends.vulkan.api import address
        create = vars(glfw)["_glfw"].glfwCreateWindowSurface
        create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
        made = ctypes.c_uint64()
        instance = device._backend.context.instance
        assert create(address(instance), ctypes.cast(theirs, ctypes.c_void_p), None, ctypes.byref(made)) == 0
        return made
    def destroy(device, surface):
        from vkshare.backends.vulkan.api import handle
        context = device._backend.context
        context.physical.vk.vkDestroySurfaceKHR(context.instance, handle("VkSurfaceKHR", surface), None)
"""
_END = """
    glfw.destroy_window(theirs)
    glfw.terminate()
    tell("alive")
"""


def _run(body: str, display: XDisplay, policy: str = "best") -> None:
    environment = display.environment | {"VKSHARE_TEST_POLICY": policy}
    assert run_child(_ENGINE + _SURFACE + body + _END, environment, timeout=90) == "alive\n"


@pytest.mark.rule("A22")
def test_an_engines_glfw_window_is_drawn_resized_and_left_with_its_error_handlers(
    x11: XDisplay, device: vks.Device, policy: str
) -> None:
    _run(
        """
    with opened() as device:
        with device.create_swapchain(theirs, present_fences=fences) as swapchain:
            assert swapchain.extent == (96, 64), swapchain
            for seed in range(4):
                on_screen(show(swapchain, seed))
            for seed, size in enumerate([(140, 90), (50, 60)]):
                resized(*size)
                for step in range(5):       # the driver may report it
                    picture = show(swapchain, step)
                if picture.shape[:2] == size[::-1]:
                    on_screen(picture)      # Mesa's thread may put it after the next swapchain's first
                swapchain.resize(*size)     # the engine does
                picture = show(swapchain, 10 + seed)
                assert swapchain.extent == size, swapchain
                on_screen(picture)
            assert handlers() == before
            try:
                swapchain.resize(0, 5)
            except ValueError as error:
                assert "width" in str(error)
            else:
                raise AssertionError("no ValueError")
        glfw.poll_events()
        with device.create_swapchain(theirs) as swapchain:      # the window was left to the engine
            on_screen(show(swapchain, 1))
    assert handlers() == before
    """,
        x11,
        policy,
    )


@pytest.mark.rule("A22")
def test_an_engines_surface_is_presented_to_and_never_destroyed(x11: XDisplay, device: vks.Device, policy: str) -> None:
    if device.backend == "cpu":
        pytest.skip("there are no VkSurfaceKHRs on the CPU backend: see the next test")
    _run(
        """
    with opened() as device:
        surface = surface_of(device)
        for form in (surface, ctypes.c_void_p(surface.value)):
            with device.create_swapchain(form, present_fences=fences) as swapchain:
                assert swapchain.extent == (96, 64), swapchain
                for seed in range(3):
                    on_screen(show(swapchain, seed))
                resized(120, 70)
                swapchain.resize(120, 70)
                picture = show(swapchain, 7)
                assert picture.shape == (70, 120, 4)
                on_screen(picture)
                resized(96, 64)
        destroy(device, surface)                        # the validation layer would know of a second time
    assert handlers() == before
    """,
        x11,
        policy,
    )


@pytest.mark.rule("A20")
def test_a_swapchain_that_is_closed_before_its_first_present_leaves_the_engines_window_alone(
    x11: XDisplay, device: vks.Device
) -> None:
    _run(
        """
    with opened() as device:
        for frames in range(3):
            swapchain = device.create_swapchain(theirs)
            taken = [swapchain.acquire(10) for _ in range(min(frames, 1))]
            for frame in taken:
                paint(frame, 1)
            swapchain.close()
            resized(60 + frames, 60)        # a round trip: Xlib would end the process for an error
        with device.create_swapchain(theirs) as swapchain:
            on_screen(show(swapchain, 1))
    """,
        x11,
    )


def test_a_device_of_an_engine_presents_to_the_engines_window(x11: XDisplay, device: vks.Device) -> None:
    if device.backend == "cpu":
        pytest.skip("there are no VkDevices on the CPU backend")
    _run(
        """
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan import instance
    backend = vulkan.open(vks.adapters("vulkan")[0], None, "engine")
    context, needed = backend.context, vks.vulkan_requirements()
    with vks.Device.from_handles(
        instance=instance.get().handle, physical_device=context.physical.handle, device=context.device,
        queue=context.queue, queue_family=context.queue_family, api_version=needed.api_version,
        enabled_extensions=sorted({*context.extensions, *instance.get().extensions}), features=needed.features,
    ) as device:
        surface = surface_of(device)
        for target in (surface, theirs):
            with device.create_swapchain(target) as swapchain:
                for seed in range(3):
                    on_screen(show(swapchain, seed))
            if target == surface:
                destroy(device, surface)
    backend.close()
    assert handlers() == before
    """,
        x11,
    )


def test_a_surface_on_the_cpu_backend_is_refused_with_what_to_do(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("the run on cpu tests it")
    with pytest.raises(vks.UnsupportedError, match="give the window itself"):
        device.create_swapchain(ctypes.c_void_p(0x1234))


_CANVAS = """
    import glfw
    from rendercanvas.glfw import RenderCanvas, loop
    from rendercanvas.offscreen import OffscreenRenderCanvas
"""


@pytest.mark.rule("I9")
def test_a_canvas_of_rendercanvas_is_drawn_by_its_own_loop_and_followed(x11: XDisplay, device: vks.Device) -> None:
    pytest.importorskip("rendercanvas")
    body = """
    with opened() as device:
        canvas = RenderCanvas(size=(96, 64), title="canvas", update_mode="continuous", max_fps=60)
        def on_screen(picture):
            seen(os.environ["DISPLAY"], glfw.get_x11_window(canvas._window), picture)
        with device.create_swapchain(canvas) as swapchain:
            sizes, shown = [], []
            @canvas.add_event_handler("resize")
            def follow(event):
                swapchain.resize(*canvas.get_physical_size())
            @canvas.request_draw
            def draw():
                picture = show(swapchain, len(sizes))
                sizes.append(swapchain.extent)
                if len(sizes) == 5:
                    on_screen(picture)
                    canvas.set_logical_size(120, 80)
                if swapchain.extent == (120, 80):
                    on_screen(picture)
                    shown.append(True)
                if len(shown) == 3 or len(sizes) == 500:
                    canvas.close()
                    loop.stop()
            loop.run()
            assert len(shown) == 3, sizes
        try:
            device.create_swapchain(canvas)
        except vks.InvalidCallError as error:
            assert "canvas is closed" in str(error), error
        else:
            raise AssertionError("no InvalidCallError")
        try:
            device.create_swapchain(OffscreenRenderCanvas(size=(9, 9)))
        except vks.UnsupportedError as error:
            assert "rendercanvas.glfw.RenderCanvas" in str(error), error
        else:
            raise AssertionError("no UnsupportedError")
    tell("alive")
"""
    assert run_child(START + _CANVAS + body, x11.environment, timeout=60) == "alive\n"

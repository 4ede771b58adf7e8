"""Windows that another toolkit made, as targets: X11Window and WaylandSurface."""

from __future__ import annotations

import ctypes

import pytest
from support.private_displays import XDisplay, run_child
from support.window_child import START

import vkshare as vks
from vkshare.errors import SurfaceLostError, UnsupportedError

pytest_plugins = ["support.private_displays", "support.present_policies"]
pytestmark = [pytest.mark.slow, pytest.mark.rule("E8")]

_TOOLKIT = (
    START
    + """
    import subprocess

    owner = subprocess.Popen(
        [sys.executable, "-m", "support.window_owner"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sys.path[0],
    )
    xid = int(owner.stdout.readline())

    def ask(words):
        print(words, file=owner.stdin, flush=True)
        assert owner.stdout.readline() == "done\\n"

    def on_screen(picture):
        seen(os.environ["DISPLAY"], xid, picture)
"""
)
_END = """
    owner.stdin.close()
    owner.wait(10)
    tell("alive")
"""


def _run(body: str, display: XDisplay, policy: str = "best") -> None:
    environment = display.environment | {"VKSHARE_TEST_POLICY": policy}
    assert run_child(_TOOLKIT + body + _END, environment, timeout=90) == "alive\n"


def test_another_processs_x11_window_is_drawn_to_and_its_sizes_are_followed(
    x11: XDisplay, device: vks.Device, policy: str
) -> None:
    _run(
        """
    with opened() as device:
        with device.create_swapchain(vks.X11Window(xid), present_fences=fences) as swapchain:
            assert swapchain.extent == (96, 64), swapchain
            for seed in range(3):
                on_screen(show(swapchain, seed))
            for width, height in [(140, 90), (50, 60), (96, 64)]:
                ask(f"size {width} {height}")
                def followed():
                    show(swapchain, 5)
                    return swapchain.extent == (width, height)
                wait_until(followed, "the size is followed")
                show(swapchain, 6)
                wait_until(lambda: show(swapchain, 7).shape[:2] == (height, width), "drawn in that size")
        with device.create_swapchain(vks.X11Window(xid, os.environ["DISPLAY"])) as swapchain:
            on_screen(show(swapchain, 1))
    """,
        x11,
        policy,
    )


def test_a_window_that_its_owner_hides_and_shows_is_drawn_to_as_before(x11: XDisplay, device: vks.Device) -> None:
    _run(
        """
    with opened() as device, device.create_swapchain(vks.X11Window(xid), present_mode="mailbox"
                                                     if device.backend == "vulkan" else "fifo") as swapchain:
        on_screen(show(swapchain, 1))
        ask("hide")
        for seed in range(3):
            show(swapchain, seed)
        ask("show")
        def is_drawn():  # frames that X took up while the window was hidden may come after the first ones of now
            picture = show(swapchain, 5)
            try:
                seen(os.environ["DISPLAY"], xid, picture, 1)
            except AssertionError:
                return False
            return True
        wait_until(is_drawn, "the window is drawn to again", 60)
    """,
        x11,
    )


def test_swapchains_follow_each_other_each_on_a_connection_of_its_own(x11: XDisplay, device: vks.Device) -> None:
    _run(
        """
    with opened() as device:
        for seed in range(8):
            with device.create_swapchain(vks.X11Window(xid)) as swapchain:
                for more in range(3):
                    on_screen(show(swapchain, 3 * seed + more))
    """,
        x11,
    )


@pytest.mark.parametrize("end", ["destroy", "kill"])
def test_a_window_that_its_owner_ends_is_lost_and_another_can_take_its_place(
    x11: XDisplay, device: vks.Device, end: str
) -> None:
    _run(
        f"""
    from vkshare.errors import SurfaceLostError
    with opened() as device, device.create_swapchain(vks.X11Window(xid)) as swapchain:
        on_screen(show(swapchain, 1))
        if {end!r} == "destroy":
            ask("destroy")
        else:
            owner.kill()
            owner.wait(10)
        until_lost(lambda: show(swapchain, 2))
        with vks.Window(80, 60, "mine") as window:
            swapchain.retarget(vks.X11Window(window.native_window))
            picture = show(swapchain, 3)
            seen(os.environ["DISPLAY"], window.native_window, picture)
            swapchain.close()
    """,
        x11,
    )


def test_an_id_of_no_window_is_a_lost_surface(x11: XDisplay, device: vks.Device) -> None:
    with pytest.raises(SurfaceLostError, match="there is no window 0x1234567"):
        device.create_swapchain(vks.X11Window(0x1234567, x11.name))
    with pytest.raises(SurfaceLostError, match="cannot be reached"):
        device.create_swapchain(vks.X11Window(1, ":4711"))


@pytest.mark.no_driver
def test_an_int_is_refused_with_both_ways_to_say_what_it_is(device: vks.Device) -> None:
    with pytest.raises(TypeError, match=r"X11Window\(number\).*c_uint64\(number\)"):
        device.create_swapchain(0x400001)


@pytest.mark.no_driver
def test_arguments_that_are_no_windows_are_refused() -> None:
    for xid in (0, -1, 2**32):
        with pytest.raises(ValueError, match="xid"):
            vks.X11Window(xid)
    with pytest.raises(TypeError, match="xid"):
        vks.X11Window("0x400001")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="display"):
        vks.X11Window(1, display=7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="surface"):
        vks.WaylandSurface(1, 0)
    with pytest.raises(TypeError, match="display"):
        vks.WaylandSurface("wayland-0", 1)


def test_the_cpu_backend_shows_no_wayland_surfaces(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("of the CPU backend")
    with pytest.raises(UnsupportedError, match="Wayland"):
        device.create_swapchain(vks.WaylandSurface(ctypes.c_void_p(1), ctypes.c_void_p(2)))

"""Swapchains on real Wayland windows, under sway, in processes of their own: glfw's library is chosen at import."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from support import private_displays
from support.private_displays import WaylandDisplay, run_child
from support.window_child import START

import vkshare as vks

pytest_plugins = ["support.private_displays", "support.present_policies"]
pytestmark = [pytest.mark.slow, pytest.mark.rule("A24")]

_WINDOW = (
    START
    + """
    screen = WaylandScreen(dict(os.environ))
    def on_screen(picture, title="mine"):
        assert_on_screen(lambda: screen.picture(title), picture)
    def poll_until(window, size):
        wait_until(lambda: window.poll(0.02) is not None and window.framebuffer_size == size, f"the window is {size}")
"""
)


@pytest.fixture(scope="module")
def _sway() -> Iterator[WaylandDisplay]:
    with private_displays.sway(640, 480) as display:
        yield display


@pytest.fixture
def sway(_sway: WaylandDisplay, device: vks.Device) -> WaylandDisplay:
    """A compositor that the tests of this module share, on a driver that can show windows there."""
    if device.backend == "cpu":
        pytest.skip("the CPU backend shows nothing on Wayland, and says so: see the last test")
    return _sway


def _run(body: str, display: WaylandDisplay, *, policy: str = "best", timeout: float = 60) -> str:
    return run_child(_WINDOW + body, display.environment | {"VKSHARE_TEST_POLICY": policy}, timeout)


@pytest.mark.rule("A22", "A25")
def test_frames_are_on_the_screen_to_the_bit_and_resizes_are_followed(sway: WaylandDisplay, policy: str) -> None:
    reported = _run(
        """
    with opened() as device, vks.Window(96, 64, "mine") as window:
        window.poll(0.05)
        with device.create_swapchain(window, present_fences=fences, capture=True) as swapchain:
            assert swapchain.extent == (96, 64)
            for seed in range(4):
                on_screen(show(swapchain, seed))
                window.poll()
            for seed, size in enumerate([(200, 150), (80, 120), (96, 64)]):
                screen.resize("mine", *size)
                poll_until(window, size)
                picture = show(swapchain, 10 + seed)
                assert picture.shape[:2] == size[::-1] and swapchain.extent == size
                on_screen(picture)
                assert (as_rgba(swapchain.capture(), swapchain.format) == picture).all()
            window.resize(123, 45)      # by itself
            poll_until(window, (123, 45))
            on_screen(show(swapchain, 20))
            told = swapchain.statistics()
            assert told.swapchains <= told.retired_limit + 1 and told.lost_frames == 0
    tell("alive")
    """,
        sway,
        policy=policy,
    )
    assert reported == "alive\n"


@pytest.mark.rule("A6", "A22")
def test_a_storm_of_resizes_stays_within_its_bounds(sway: WaylandDisplay, policy: str) -> None:
    reported = _run(
        """
    import random
    random.seed(7)
    with opened() as device, vks.Window(96, 64, "mine") as window:
        window.poll(0.05)
        with device.create_swapchain(window, present_fences=fences) as swapchain:
            show(swapchain, 0)
            for step in range(40):
                size = random.randint(70, 200), random.randint(70, 200)
                if step % 4:
                    window.resize(*size)
                else:
                    screen.resize("mine", *size)
                window.poll()
                for _ in range(random.randint(0, 2)):
                    show(swapchain, step)
                told = swapchain.statistics()
                assert told.most_alive <= told.retired_limit + 1, told
            size = 111, 77
            window.resize(*size)
            poll_until(window, size)
            on_screen(show(swapchain, 99))
            assert swapchain.statistics().quarantined == 0
    tell("alive")
    """,
        sway,
        policy=policy,
    )
    assert reported == "alive\n"


def test_each_present_mode_of_the_window_shows_and_others_are_refused(sway: WaylandDisplay) -> None:
    reported = _run(
        """
    with opened() as device, vks.Window(96, 64, "mine") as window:
        window.poll(0.05)
        found = []
        for seed, mode in enumerate(("fifo", "fifo_relaxed", "mailbox", "immediate")):
            try:
                swapchain = device.create_swapchain(window, present_mode=mode)
            except vks.UnsupportedError as error:
                assert error.why.startswith("it has ") and "fifo" in error.why, error
                continue
            with swapchain:
                found.append(mode)
                on_screen(show(swapchain, seed))
        assert "fifo" in found, found
        with device.create_swapchain(window) as swapchain:
            for seed, mode in enumerate((*found, *reversed(found))):
                swapchain.present_mode = mode
                on_screen(show(swapchain, 10 + seed))
    tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


@pytest.mark.rule("A20")
def test_a_window_that_is_closed_while_a_frame_is_out_closes_the_swapchain_first(sway: WaylandDisplay) -> None:
    reported = _run(
        """
    with opened() as device:
        window = vks.Window(96, 64, "mine")
        window.poll(0.05)
        swapchain = device.create_swapchain(window)
        show(swapchain, 0)
        frame = swapchain.acquire(10)
        paint(frame, 1)
        window.close()
        for call in (lambda: swapchain.present(frame), lambda: swapchain.acquire(1), swapchain.capture):
            try:
                call()
            except vks.ClosedError:
                continue
            raise AssertionError("no ClosedError")
        with vks.Window(70, 80, "mine") as window:
            window.poll(0.05)
            with device.create_swapchain(window) as swapchain:
                on_screen(show(swapchain, 1))
        tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


def test_two_windows_are_drawn_at_two_rates_by_one_device(sway: WaylandDisplay) -> None:
    reported = _run(
        """
    with opened() as device, vks.Window(80, 60, "left") as left, vks.Window(60, 80, "right") as right:
        left.poll(0.05)
        with device.create_swapchain(left) as fast, device.create_swapchain(right) as slow:
            pictures = [show(fast, 0), show(slow, 0)]
            for number, title in enumerate(("left", "right")):
                screen.find(title)
                screen.command(f'[title="{title}"]', "move", "absolute", "position", str(20 + 300 * number), "20")
            for step in range(30):
                pictures[0] = show(fast, step)
                if step % 7 == 0:
                    pictures[1] = show(slow, 100 + step)
                left.poll()
            on_screen(pictures[0], "left")
            on_screen(pictures[1], "right")
    tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


@pytest.mark.rule("A14", "A21")
@pytest.mark.parametrize("mode", ["fifo", "mailbox"])
def test_a_window_that_is_not_shown_goes_on_and_its_pictures_come_back(sway: WaylandDisplay, mode: str) -> None:
    # Mesa's own "fifo" would wait in vkQueuePresentKHR for a callback that a hidden window never gets.
    reported = _run(
        f"""
    with opened() as device, vks.Window(96, 64, "mine") as window:
        window.poll(0.05)
        with device.create_swapchain(window, present_mode="{mode}") as swapchain:
            on_screen(show(swapchain, 0))
            screen.command('[title="mine"]', "move", "scratchpad")
            wait_until(lambda: not screen.find("mine")["visible"], "it is hidden")
            for seed in range(10):
                show(swapchain, seed)
                window.poll()
            screen.command('[title="mine"]', "scratchpad", "show")
            wait_until(lambda: screen.find("mine")["visible"], "it is back")
            for seed in range(2):
                on_screen(show(swapchain, 20 + seed))
    tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


@pytest.mark.rule("A9")
@pytest.mark.parametrize("retargets", [False, True])
def test_a_killed_compositor_is_a_surface_lost_error_and_a_new_window_works(
    device: vks.Device, retargets: bool
) -> None:
    if device.backend == "cpu":
        pytest.skip("the CPU backend shows nothing on Wayland")
    with private_displays.sway() as first, private_displays.sway() as second:
        reported = _run(
            f"""
    import signal
    with opened() as device:
        window = vks.Window(96, 64, "mine")
        window.poll(0.05)
        swapchain = device.create_swapchain(window, present_mode="mailbox")
        on_screen(show(swapchain, 0))
        frame = swapchain.acquire(10)
        os.kill({first.pid}, signal.SIGKILL)
        until_lost(window.poll)
        frame.close()
        until_lost(lambda: show(swapchain, 1))       # and so say its frames
        if not {retargets}:
            window.close()
            assert swapchain.is_closed
        os.environ["XDG_RUNTIME_DIR"] = {second.environment["XDG_RUNTIME_DIR"]!r}
        os.environ["WAYLAND_DISPLAY"] = "{second.name}"
        os.environ["SWAYSOCK"] = {second.environment["SWAYSOCK"]!r}
        screen = WaylandScreen(dict(os.environ))
        another = vks.Window(70, 80, "mine")
        another.poll(0.05)
        if {retargets}:
            swapchain.retarget(another)
            window.close()
        else:
            swapchain = device.create_swapchain(another)
        for seed in range(3):
            on_screen(show(swapchain, seed))
        another.close()
        assert swapchain.is_closed
    tell("alive")
    """,
            first,
        )
    assert reported == "alive\n"


def test_an_engines_own_window_is_followed_by_resize(sway: WaylandDisplay) -> None:
    reported = _run(
        """
    import glfw
    glfw.init()
    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    theirs = glfw.create_window(96, 64, "mine", None, None)
    with opened() as device:
        with device.create_swapchain(theirs) as swapchain:
            assert swapchain.extent == (96, 64), swapchain
            on_screen(show(swapchain, 1))
            def resized():
                glfw.set_window_size(theirs, 120, 70)   # again: a size that sway told earlier may come after it
                glfw.poll_events()
                return glfw.get_framebuffer_size(theirs) == (120, 70)
            wait_until(resized, "the window is larger")
            swapchain.resize(*glfw.get_framebuffer_size(theirs))
            picture = show(swapchain, 2)
            assert swapchain.extent == (120, 70), (swapchain, glfw.get_framebuffer_size(theirs))
            on_screen(picture)
    glfw.destroy_window(theirs)
    glfw.terminate()
    tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


@pytest.mark.rule("E8")
def test_another_toolkits_surface_is_drawn_to_in_the_size_that_the_program_gives(sway: WaylandDisplay) -> None:
    reported = _run(
        """
    import glfw
    glfw.init()
    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    theirs = glfw.create_window(96, 64, "mine", None, None)
    target = vks.WaylandSurface(glfw.get_wayland_display(), glfw.get_wayland_window(theirs))
    with opened() as device:
        for _ in range(2):      # the surface is left to its owner
            with device.create_swapchain(target) as swapchain:
                for size in [(96, 64), (70, 50)]:
                    swapchain.resize(*size)
                    picture = show(swapchain, 1)
                    assert swapchain.extent == size and picture.shape[:2] == size[::-1]
                    glfw.poll_events()
                swapchain.resize(96, 64)
                on_screen(show(swapchain, 2))
    glfw.destroy_window(theirs)
    glfw.terminate()
    tell("alive")
    """,
        sway,
    )
    assert reported == "alive\n"


def test_on_the_cpu_backend_wayland_windows_are_refused_with_what_to_do() -> None:
    if os.environ.get("VKSHARE_TEST_DRIVER", "cpu") != "cpu":
        pytest.skip("the run on cpu tests it")
    with private_displays.sway() as display:
        reported = run_child(
            START
            + """
    with vks.open(backend="cpu") as device, vks.Window(64, 48) as window:
        try:
            device.create_swapchain(window)
        except vks.UnsupportedError as error:
            tell("DISPLAY" in error.hint and "Vulkan" in error.hint)
        with device.create_swapchain(vks.Headless(8, 8)) as swapchain:
            show(swapchain, 1)
    """,
            display.environment,
        )
    assert reported == "True\n"

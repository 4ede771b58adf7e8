"""The window system goes away under a swapchain: SurfaceLostError, the process lives, and another window works.

Each in a process of its own, on the driver of this run.

The widths of windows whose server dies are chosen: libxcb says that a dead connection takes requests of 0 bytes, and
lavapipe then sends an image in parts of ((2**64 - 24) / row pitch) rows, truncated to 32 bits. Where that is negative
(-1 for 64 pixels) its loop ends after 2**32 rounds, half a minute inside vkQueuePresentKHR.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import private_displays
from support.private_displays import XDisplay, run_child
from support.window_child import START

pytest_plugins = ["support.private_displays", "support.present_policies"]
pytestmark = [pytest.mark.slow, pytest.mark.rule("A9", "A24"), pytest.mark.usefixtures("device")]

_WINDOW = (
    START
    + """
    import signal
    def kill(pid):
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()
"""
)
_NEXT = """
        os.environ["DISPLAY"] = "{second}"
        with vks.Window(70, 50, "next") as another:
            another.poll(0.1)
            with device.create_swapchain(another) as swapchain:
                seen(another.display_name, another.native_window, show(swapchain, 6))
                tell("shown")
    tell("alive")
"""


@pytest.fixture
def run(x11: XDisplay) -> Callable[..., str]:
    """Runs a program on an X server of its own, {pid}, which it may kill; {second} names one that stays."""

    def run_it(body: str, policy: str = "best") -> str:
        with private_displays.xvfb(window_manager=False) as first:
            code = (_WINDOW + body).replace("{pid}", str(first.pid)).replace("{second}", x11.name)
            return run_child(code, first.environment | {"VKSHARE_TEST_POLICY": policy}, timeout=90)

    return run_it


def test_a_killed_x_server_ends_a_running_loop_with_surface_lost_and_a_new_window_works(
    run: Callable[..., str], policy: str
) -> None:
    reported = run(
        f"""
    with opened() as device:
        window = vks.Window(192, 64, "first")
        window.poll(0.05)
        swapchain = device.create_swapchain(window, present_fences=fences)
        def one():
            show(swapchain, 1)
            if {policy != "best"}:
                window.poll()
        for _ in range(10):
            one()
        kill({{pid}})
        until_lost(one)
        for call in (lambda: show(swapchain, 2), window.poll, lambda: window.size):
            until_lost(call)      # and goes on saying so
        swapchain.close()
        window.close()
        assert window.is_closed and swapchain.is_closed
    """
        + _NEXT,
        policy=policy,
    )
    assert reported == "shown\nalive\n"


def test_a_server_that_is_killed_while_a_frame_is_out_is_told_by_its_present(run: Callable[..., str]) -> None:
    reported = run(
        """
    with opened() as device:
        window = vks.Window(192, 64, "first")
        window.poll(0.05)
        swapchain = device.create_swapchain(window, present_fences=fences)
        show(swapchain, 1)
        frame = swapchain.acquire(10)
        paint(frame, 2)
        kill({pid})
        def present_and_go_on():
            global frame
            if frame is not None:
                frame, present = None, frame
                swapchain.present(present)
            show(swapchain, 3)
        until_lost(present_and_go_on)
        window.close()      # closes the swapchain
        assert swapchain.is_closed
    """
        + _NEXT
    )
    assert reported == "shown\nalive\n"


def test_a_server_that_is_killed_while_other_threads_draw_ends_each_with_a_clean_error(run: Callable[..., str]) -> None:
    reported = run(
        """
    import threading
    with opened() as device:
        windows = [vks.Window(192, 64, "one"), vks.Window(160, 96, "two")]
        swapchains = [device.create_swapchain(w, present_fences=fences) for w in windows]
        lost = []
        def draw(swapchain):
            until_lost(lambda: show(swapchain, 1))
            lost.append(swapchain)
        threads = [threading.Thread(target=draw, args=(swapchain,)) for swapchain in swapchains]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(s.statistics().frames > 5 for s in swapchains), "both draw")
        kill({pid})
        until_lost(windows[0].poll)     # as the main thread of a program does; some drivers report nothing
        for thread in threads:
            thread.join(60)
        assert len(lost) == 2, lost
        for window in windows:
            window.close()
    """
        + _NEXT
    )
    assert reported == "shown\nalive\n"


def test_a_swapchain_whose_server_was_killed_goes_on_with_a_new_window(run: Callable[..., str], policy: str) -> None:
    reported = run(
        """
    with opened() as device:
        window = vks.Window(192, 64, "first")
        window.poll(0.05)
        swapchain = device.create_swapchain(window, present_fences=fences)
        clear = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        swapchain.present_prepared(clear)
        kill({pid})
        until_lost(lambda: show(swapchain, 1))
        os.environ["DISPLAY"] = "{second}"
        another = vks.Window(70, 50, "next")
        another.poll(0.1)
        until_lost(lambda: show(swapchain, 1))       # until it has another target
        swapchain.retarget(another)
        for seed in range(4):
            seen(another.display_name, another.native_window, show(swapchain, seed))
        window.close()                                  # no longer its business
        swapchain.present_prepared(clear)
        assert swapchain.extent == (70, 50)
        another.resize(80, 60)
        wait_until(lambda: another.poll(0.02) is not None and another.framebuffer_size == (80, 60), "resized")
        seen(another.display_name, another.native_window, show(swapchain, 9))
        another.close()
        assert swapchain.is_closed
    tell("alive")
    """,
        policy=policy,
    )
    assert reported == "alive\n"


def test_a_device_outlives_a_server_that_is_killed_before_the_swapchain_is_made(run: Callable[..., str]) -> None:
    reported = run(
        """
    with opened() as device:
        window = vks.Window(192, 64, "first")
        window.poll(0.05)
        kill({pid})
        time.sleep(0.3)
        until_lost(lambda: device.create_swapchain(window))
        window.close()
    """
        + _NEXT
    )
    assert reported == "shown\nalive\n"


def test_closing_all_without_having_noticed_the_loss_is_clean(run: Callable[..., str]) -> None:
    for order in ("swapchain.close(); window.close(); device.close()", "device.close(); window.close()",
                  "window.close(); device.close()"):  # fmt: skip
        reported = run(
            f"""
    with opened() as device:
        window = vks.Window(192, 64, "first")
        window.poll(0.05)
        swapchain = device.create_swapchain(window, present_fences=fences)
        show(swapchain, 1)
        kill({{pid}})
        {order}
    tell("alive")
    """
        )
        assert reported == "alive\n", order


@pytest.mark.rule("A27")
@pytest.mark.parametrize("call", ["acquire", "present"])
def test_other_threads_run_while_the_x_server_is_stopped(call: str, policy: str) -> None:
    with private_displays.xvfb() as display:
        reported = run_child(
            START
            + f"""
    import subprocess, threading
    def is_stopped():
        with open("/proc/{display.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "T"
    with opened() as device, vks.Window(64, 48, "mine") as window:
        swapchain = device.create_swapchain(window, present_fences=fences)
        for seed in range(3):
            show(swapchain, seed)
        frame = swapchain.acquire(10) if "{call}" == "present" else None
        def use():
            try:
                swapchain.acquire(0.2).close() if frame is None else swapchain.present(frame)
            except TimeoutError:
                pass
        stopper = subprocess.Popen(["sh", "-c", "kill -STOP {display.pid}; sleep 2; kill -CONT {display.pid}"])
        wait_until(is_stopped, "stopped")
        user = threading.Thread(target=use)
        user.start()
        naps = 0
        while is_stopped():
            naps += 1
            time.sleep(0.01)
        user.join(20)
        assert not user.is_alive()
        stopper.wait()
        if frame is not None:
            frame.close()
        for seed in range(3):
            show(swapchain, seed)
        tell(naps > 20)
    """,
            display.environment | {"VKSHARE_TEST_POLICY": policy},
            timeout=60,
        )
    assert reported == "True\n"

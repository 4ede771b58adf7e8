"""Swapchains used by several threads at once: frames go from hand to hand, sizes change, and a thread closes."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from support.headless_swapchains import clearing, create, expected, show, take_all
from support.peer_processes import later
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks
from vkshare.backends.vulkan import barriers
from vkshare.errors import ClosedError, InvalidCallError, NotOwnerError, VkshareError
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

Open = Callable[..., vks.Device]


@pytest.fixture(params=[True, False], ids=["by_fences", "by_acquires"])
def swapchain(request: pytest.FixtureRequest, vks_device: vks.Device) -> vks.Swapchain:
    return create(vks_device, 16, 12, fences=request.param)


@contextmanager
def hasty_switches() -> Iterator[None]:
    """Threads of Python take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(*calls: Callable[[], Any]) -> None:
    """Runs each in a thread of its own; raises what any raised."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> None:
        gate.wait(30)
        call()

    for running in [later(run, call) for call in calls]:
        running.result(100)


def test_what_is_drawn_after_another_threads_resize_is_refused_with_the_way_out(swapchain: vks.Swapchain) -> None:
    device, frame = swapchain.device, swapchain.acquire()
    commands = device.record().clear(frame.view, (1, 0, 0, 1))
    later(swapchain.resize, 20, 16).result(30)
    show(swapchain, clearing(1))
    with pytest.raises(InvalidCallError, match=r"swapchain was resized; acquire\(\) another frame") as caught:
        device.submit(commands)
    assert "surface.access" not in str(caught.value)  # of a frame there is none
    mine = device.create_surface(4, 4)
    with pytest.raises(NotOwnerError, match=r"with surface\.access\(") as caught:
        device.submit(device.record().clear(mine, (1, 0, 0, 1)))
    assert "frame" not in str(caught.value)


@pytest.mark.rule("A22")
def test_one_thread_acquires_another_draws_and_a_third_presents(swapchain: vks.Swapchain) -> None:
    device, count = swapchain.device, rounds(100_000, 1000)
    acquired: queue.Queue[vks.Frame] = queue.Queue()
    drawn: queue.Queue[vks.Frame] = queue.Queue()

    def acquire() -> None:
        for _ in range(count):
            acquired.put(swapchain.acquire(60))

    def draw() -> None:
        for turn in range(count):
            frame = acquired.get(timeout=60)
            device.submit(device.record().clear(frame.view, (turn % 256 / 255, 0, 0, 1)))
            drawn.put(frame)

    def present() -> None:
        for _ in range(count):
            swapchain.present(drawn.get(timeout=60))

    together(acquire, draw, present)
    assert swapchain.statistics().frames == count
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing((count - 1) % 256)))


def test_threads_that_each_show_whole_frames_share_one_swapchain(swapchain: vks.Swapchain) -> None:
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))

    def by_hand() -> None:
        for turn in range(rounds(10_000, 150)):
            show(swapchain, clearing(turn % 256))

    def in_one_call() -> None:
        for _ in range(rounds(10_000, 150)):
            swapchain.present_prepared(prepared, timeout=60)

    def drop() -> None:
        for _ in range(rounds(10_000, 150)):
            swapchain.acquire(60).close()

    with hasty_switches():
        together(by_hand, by_hand, in_one_call, in_one_call, drop)
    swapchain.present_prepared(prepared)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))


def test_a_prepared_is_reset_while_others_run_it(swapchain: vks.Swapchain) -> None:
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
    stop = threading.Event()

    def reset() -> None:
        while not stop.is_set():
            prepared.reset()

    def run() -> None:
        try:
            for _ in range(rounds(10_000, 300)):
                swapchain.present_prepared(prepared)
        finally:
            stop.set()

    with hasty_switches():
        together(reset, run)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))


@pytest.mark.rule("A6")
def test_two_swapchains_on_one_device_show_their_own_frames(vks_device: vks.Device) -> None:
    one, two = create(vks_device, 16, 12), create(vks_device, 9, 20)

    def run(swapchain: vks.Swapchain, green: int) -> None:
        for turn in range(rounds(5000, 150)):
            show(swapchain, clearing(turn % 256, green))
            if turn % 50 == 0:
                assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn % 256, green)))

    together(lambda: run(one, 1), lambda: run(two, 2))


@pytest.mark.rule("A6", "A9")
def test_resizes_from_another_thread_in_the_middle_of_frames(swapchain: vks.Swapchain) -> None:
    dice = seeded()
    stop = threading.Event()
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
    counts = {"shown": 0, "late": 0}

    def resize() -> None:
        try:
            for _ in range(rounds(10_000, 120)):
                swapchain.resize(dice.randrange(1, 40), dice.randrange(1, 40))
                time.sleep(0.0005)
        finally:
            stop.set()

    def draw() -> None:
        while not stop.is_set():
            try:
                if counts["shown"] % 2:
                    swapchain.present_prepared(prepared)
                else:
                    show(swapchain, clearing(7))
                counts["shown"] += 1
            except (InvalidCallError, NotOwnerError, ClosedError):
                counts["late"] += 1  # the other drawing thread had the swapchain recreated in the middle of this frame

    together(resize, draw, draw)
    assert counts["shown"]
    swapchain.resize(30, 20)
    for _ in range(5):
        swapchain.present_prepared(prepared)
    assert swapchain.extent == (30, 20)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))
    assert swapchain.statistics().most_alive <= 5


@pytest.mark.rule("A9")
def test_an_image_that_goes_while_commands_are_recorded_keeps_its_handles_until_they_are(
    swapchain: vks.Swapchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = barriers.begin
    ending: list[threading.Thread] = []

    def begin_slowly(vk: Any, commands: Any, shown: Sequence[Any]) -> None:
        begin(vk, commands, shown)
        ending.append(threading.Thread(target=image.destroy))
        ending[0].start()
        ending[0].join(0.05)  # as a resize by another thread does, where nothing keeps it from that

    with swapchain.frame() as frame:
        image: Any = frame.view.surface._image
        if not getattr(image, "is_presentable", False):
            pytest.skip("the images are surfaces of our own: none goes before its commands have run")
        monkeypatch.setattr(barriers, "begin", begin_slowly)
        frame.view.surface.read()  # lists are recorded in C, with the generation pinned: native/python/compile.c
    ending[0].join(30)
    assert image.handle is None


def test_one_drawing_thread_never_notices_the_resizes_of_another(swapchain: vks.Swapchain) -> None:
    stop = threading.Event()

    def resize() -> None:
        try:
            for turn in range(rounds(10_000, 150)):
                swapchain.resize(1 + turn % 30, 30 - turn % 30)
                time.sleep(0.0003)
        finally:
            stop.set()

    def draw() -> None:
        while not stop.is_set():
            frame = swapchain.acquire(60)
            size = frame.width, frame.height
            assert frame.view.shape[1::-1] == size
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (0, 1, 0, 1)))
            swapchain.present(frame)

    together(resize, draw)


def test_sizes_that_two_threads_ask_for_at_once_end_in_one_of_them(swapchain: vks.Swapchain) -> None:
    sizes = [(5, 6), (7, 8), (9, 10)]

    def ask(size: tuple[int, int]) -> None:
        for _ in range(300):
            swapchain.resize(*size)

    for _ in range(5):
        with hasty_switches():
            together(*[lambda size=size: ask(size) for size in sizes])
        waits = later(swapchain.acquire, 20)
        frame = waits.result(30)
        assert (frame.width, frame.height) in sizes
        swapchain.present(frame)


def test_two_acquires_after_a_resize_make_one_new_swapchain(swapchain: vks.Swapchain) -> None:
    for turn in range(60):
        swapchain.resize(10 + turn, 10)
        before = swapchain.statistics().recreated
        frames: list[vks.Frame] = []

        def acquire(frames: list[vks.Frame] = frames) -> None:
            frames.append(swapchain.acquire(30))

        with hasty_switches():
            together(acquire, acquire)
        assert swapchain.statistics().recreated == before + 1
        for frame in frames:
            assert (frame.width, frame.height) == (10 + turn, 10)
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
            swapchain.present(frame)


def test_an_acquire_overtaken_by_a_resize_and_another_acquire_harms_neither(swapchain: vks.Swapchain) -> None:
    adopt = swapchain._adopt
    overtaking: list[vks.Frame] = []

    def overtaken(index: int, generation: int) -> bool:
        if not overtaking:
            overtaking.append(None)  # type: ignore[arg-type]
            swapchain.resize(20, 21)
            overtaking[:] = [later(swapchain.acquire, 30).result(60)]
        return adopt(index, generation)

    show(swapchain, clearing(1))
    swapchain.resize(18, 19)
    swapchain._adopt = overtaken  # type: ignore[method-assign]
    try:
        late: vks.Frame | None = swapchain.acquire(30)
    except InvalidCallError:
        late = None
    if not overtaking:
        pytest.skip("images of a ring are adopted under a lock")
    (frame,) = overtaking
    assert frame.view.shape[:2] == (21, 20)
    swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    swapchain.present(frame)
    if late is not None:
        late.close()
    for turn in range(3 * swapchain.image_count):
        show(swapchain, clearing(turn))
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))


def test_statistics_and_words_are_asked_for_at_any_time(swapchain: vks.Swapchain) -> None:
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            assert swapchain.statistics().swapchains <= 5
            assert repr(swapchain)
            assert len(swapchain.extent) == 2
            assert swapchain.present_mode == "fifo"

    def run() -> None:
        try:
            for turn in range(rounds(5000, 200)):
                if turn % 20 == 0:
                    swapchain.resize(1 + turn % 50, 9)
                show(swapchain, clearing(turn % 256))
        finally:
            stop.set()

    together(ask, run)


# ---- closing ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A20", "A21")
@pytest.mark.parametrize("what", ["swapchain", "device"])
def test_a_close_ends_an_acquire_that_waits_in_another_thread(vks_open: Open, what: str) -> None:
    device = vks_open()
    swapchain = create(device, 8, 8)
    frames = take_all(swapchain)
    waits = [later(swapchain.acquire, 60) for _ in range(2)]
    assert not any(call.done(0.05) for call in waits)
    (swapchain if what == "swapchain" else device).close()
    for call in waits:
        with pytest.raises(ClosedError):
            call.result(20)
    for frame in frames:
        frame.close()


def _until_it_fails(errors: list[BaseException], call: Callable[[], Any]) -> None:
    try:
        while True:
            call()
    except VkshareError as error:
        errors.append(error)


@pytest.mark.parametrize("what", ["swapchain", "device"])
def test_a_close_in_the_middle_of_frames_ends_them_with_closed_errors(vks_open: Open, what: str) -> None:
    for turn in range(rounds(200, 3)):
        device = vks_open()
        swapchain = create(device, 8, 8, fences=None if turn % 2 else False)
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
        errors: list[BaseException] = []

        threads = [
            later(_until_it_fails, errors, lambda swapchain=swapchain: show(swapchain, clearing(1))),
            later(
                _until_it_fails,
                errors,
                lambda show=swapchain.present_prepared, prepared=prepared: show(prepared),
            ),
        ]
        while swapchain.statistics().frames < 10:
            time.sleep(0.001)
        (swapchain if what == "swapchain" else device).close()
        for thread in threads:
            thread.result(30)
        assert len(errors) == 2
        assert all(isinstance(error, (ClosedError, InvalidCallError)) for error in errors), errors
        last = swapchain.statistics()
        assert (last.semaphores, last.fences, last.swapchains) == (0, 0, 0)


@pytest.mark.rule("A20")
def test_a_device_closes_with_frames_out_and_work_under_way(vks_open: Open) -> None:
    device = vks_open()
    swapchains = [create(device, 64, 64) for _ in range(3)]
    frames = [frame for swapchain in swapchains for frame in take_all(swapchain)]
    for frame in frames[::2]:
        device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
    device.close()
    for swapchain in swapchains:
        assert swapchain.is_closed
        assert swapchain.statistics().swapchains == 0
    for frame in frames:
        frame.close()
        with pytest.raises(VkshareError):
            frame.swapchain.present(frame)


def test_several_threads_close_one_swapchain(vks_open: Open) -> None:
    device = vks_open()
    for _ in range(10):
        swapchain = create(device, 8, 8)
        show(swapchain, clearing(1))
        together(*[swapchain.close] * 4)
        assert swapchain.is_closed

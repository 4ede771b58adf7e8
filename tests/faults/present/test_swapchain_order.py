"""Swapchains before a fault layer: what is used, reset and destroyed in which order, and drivers that are strange."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support import faulty_order
from support.fault_layer import FaultLayer, run_with_faults
from support.readable_fds import await_readable
from support.run_volumes import unhurried

import vkshare as vks

pytest_plugins = ["support.present_policies"]

pytestmark = [unhurried, pytest.mark.usefixtures("headless_surfaces")]

POLICIES = pytest.mark.parametrize("fences", [True, False], ids=["by_fences", "by_acquires"])


def _deadlines(fence_ms: int = 5000, proof_ms: int = 1000) -> None:
    from vkshare.present import swapchain

    swapchain._FENCE_DEADLINE, swapchain._PROOF_DEADLINE = fence_ms * 1_000_000, proof_ms * 1_000_000


def _create(device: vks.Device, fences: bool | None, **options: Any) -> vks.Swapchain:
    return device.create_swapchain(vks.Headless(16, 16), present_fences=fences, **options)


# ---- the order of things ---------------------------------------------------------------------------------------------


def _storm(layer: FaultLayer, fences: bool) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            faulty_order.storm(swapchain, 12, 7)
            calls, peak = layer.calls(), layer.peak()
        events = layer.events()
        reported = {"calls": calls, "peak": peak, "violations": layer.violations(), "swapchains": layer.live()}
    return reported | {
        "views": faulty_order.views_after_their_swapchain(events),
        "fences": faulty_order.fences_used_unreset(events),
        "reused": faulty_order.reused_before_the_next_acquire(events),
        "left": faulty_order.left(layer),
    }


@pytest.mark.rule("A1", "A8", "A10", "A17")
@POLICIES
def test_a_storm_of_resizes_uses_and_destroys_everything_in_order(fences: bool) -> None:
    reported = run_with_faults(_storm, fences)
    assert reported["violations"] == []
    assert reported["views"] == []
    assert reported["fences"] == []
    assert reported["left"] == {}
    assert "swapchain" not in reported["swapchains"]
    assert reported["peak"]["swapchain"] <= 5
    assert not {"vkDeviceWaitIdle", "vkQueueWaitIdle"} & set(reported["calls"])


def _frames(layer: FaultLayer) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, False) as swapchain:
            faulty_order.draw(swapchain, 200)
            reported = {"images": swapchain.image_count, "peak": layer.peak()["semaphore"]}
        return reported | {
            "reused": faulty_order.reused_before_the_next_acquire(layer.events()),
            "violations": layer.violations(),
        }


@pytest.mark.rule("A1")
def test_a_presents_semaphore_is_signalled_again_only_after_the_next_acquire_of_its_image_was_waited_for() -> None:
    reported = run_with_faults(_frames)
    wrong, reused = reported["reused"]
    assert wrong == []
    assert reused > 100
    assert reported["peak"] <= 3 * reported["images"] + 4  # the device's timeline, and one to spare
    assert reported["violations"] == []


def _polls(layer: FaultLayer) -> list[Any]:
    _deadlines(fence_ms=60_000)
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.withhold_fences("present")
        with _create(device, True) as swapchain:
            for width in (16, 17, 18, 19):
                swapchain.resize(width, 16)
                faulty_order.draw(swapchain, 10)
            retired = swapchain.statistics().retired
            before = layer.calls().get("vkGetFenceStatus", 0)
            faulty_order.draw(swapchain, 10)
            polls = layer.calls()["vkGetFenceStatus"] - before
            layer.release()
            faulty_order.draw(swapchain, 3)
            after = swapchain.statistics().retired
    return [retired, polls, after, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A7")
def test_of_each_replaced_swapchain_one_fence_is_polled_a_present() -> None:
    retired, polls, after, violations, left = run_with_faults(_polls)
    assert retired == 3
    assert polls <= 10 * (retired + 1)
    assert (after, violations, left) == (0, [], {})


# ---- fences and timelines that do not come ---------------------------------------------------------------------------


def _quarantine(layer: FaultLayer, released: bool) -> dict[str, Any]:
    _deadlines(fence_ms=40, proof_ms=300)
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.withhold_fences("present")
        swapchain = _create(device, True)
        faulty_order.draw(swapchain, 10)
        time.sleep(0.1)
        faulty_order.draw(swapchain, 10)
        reported: dict[str, Any] = {"quarantined": swapchain.statistics().quarantined}
        reported["fences"] = layer.live()["fence"]
        reported["reset"] = layer.calls().get("vkResetFences", 0)
        if released:
            layer.release()
            for _ in range(20):
                faulty_order.draw(swapchain, 5)
            reported["after"] = swapchain.statistics()
        reported["violations"] = layer.violations()
        started = time.monotonic()
        swapchain.close()
        reported["seconds"] = time.monotonic() - started
    return reported | {"left": faulty_order.left(layer)}


@pytest.mark.rule("A16")
@pytest.mark.parametrize("released", [True, False], ids=["late", "never"])
def test_what_a_late_fence_guards_is_quarantined_and_counted_and_close_ends(released: bool) -> None:
    reported = run_with_faults(_quarantine, released, messages=released)
    assert reported["quarantined"] >= 10
    assert reported["reset"] == 0
    assert reported["fences"] >= 20
    assert reported["violations"] == []
    assert set(reported["left"]) <= (set() if released else {"fence"})  # a driver may write to those still
    assert reported["seconds"] < 8
    if released:
        assert reported["after"].quarantined == 0
        assert reported["after"].history <= 4
        assert reported["after"].pooled_fences >= 10


def _never_and_resized(layer: FaultLayer) -> dict[str, Any]:
    _deadlines(fence_ms=30, proof_ms=100)
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.withhold_fences("present")
        swapchain = _create(device, True)
        errors: list[str] = []
        for turn in range(12):
            swapchain.resize(20 + turn, 20)
            try:
                faulty_order.draw(swapchain, 1, timeout=2)
            except TimeoutError as error:
                errors.append(str(error))
        statistics, alive = swapchain.statistics(), layer.peak()["swapchain"]
        violations = layer.violations()
        started = time.monotonic()
        swapchain.close()
        seconds = time.monotonic() - started
    return {"errors": errors, "statistics": statistics, "alive": alive, "violations": violations, "seconds": seconds,
            "left": faulty_order.left(layer)}  # fmt: skip


@pytest.mark.rule("A6", "A16", "A21")
def test_resizes_whose_fences_never_come_keep_the_bound() -> None:
    reported = run_with_faults(_never_and_resized, messages=False, timeout=60)
    assert reported["alive"] <= reported["statistics"].retired_limit + 1
    assert reported["violations"] == []
    assert reported["seconds"] < 8
    assert set(reported["left"]) <= {"fence"}
    assert all("retired" in text or "replaced" in text or "acquire" in text for text in reported["errors"]), reported[
        "errors"
    ]


def _delayed(layer: FaultLayer, fences: bool) -> list[Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.delay_fences(25)
        with _create(device, fences) as swapchain:
            faulty_order.storm(swapchain, 8, 4)
            alive = layer.peak()["swapchain"]
    return [alive, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A6", "A16")
@POLICIES
def test_fences_that_are_late_are_waited_for(fences: bool) -> None:
    alive, violations, left = run_with_faults(_delayed, fences)
    assert alive <= 5
    assert (violations, left) == ([], {})


def _withheld_timeline(layer: FaultLayer, fences: bool) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences, frames_in_flight=2) as swapchain:
            faulty_order.draw(swapchain, 5)
            layer.withhold_semaphores()
            shown = 0
            try:
                for _ in range(6):
                    faulty_order.draw(swapchain, 1, timeout=0.2)
                    shown += 1
                error = ""
            except TimeoutError as raised:
                error = str(raised)
            calls = layer.calls()
            layer.release()
            faulty_order.draw(swapchain, 5)
            waits = swapchain.statistics().acquire_waits
    # Present fences prove what the withheld timeline does not tell.
    violations = [v for v in layer.violations() if not v.text.endswith("may run")]
    return {"shown": shown, "error": error, "calls": calls, "waits": waits, "violations": violations,
            "left": faulty_order.left(layer)}  # fmt: skip


@pytest.mark.rule("A10", "A21")
@POLICIES
def test_work_that_does_not_end_stops_acquire_after_the_frames_in_flight_and_no_idle_wait_is_made(fences: bool) -> None:
    reported = run_with_faults(_withheld_timeline, fences)
    assert reported["shown"] == 2
    assert reported["error"]
    assert reported["waits"] >= 1
    assert not {"vkDeviceWaitIdle", "vkQueueWaitIdle"} & set(reported["calls"])
    assert (reported["violations"], reported["left"]) == ([], {})


# ---- results that acquire and present may give -----------------------------------------------------------------------


def _acquires(layer: FaultLayer, fences: bool, result: str) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            faulty_order.draw(swapchain, 3)
            made, asked = layer.calls()["vkCreateSwapchainKHR"], layer.calls()["vkAcquireNextImageKHR"]
            layer.fail("vkAcquireNextImageKHR", result=result, count=0)
            try:
                frame = swapchain.acquire(5)
                error = "a frame"
                swapchain.present(frame)
            except vks.VkshareError as raised:
                error = str(raised)
            reported: dict[str, Any] = {"error": error}
            reported["asked"] = layer.calls()["vkAcquireNextImageKHR"] - asked
            reported["made"] = layer.calls()["vkCreateSwapchainKHR"] - made
            if result == "SURFACE_LOST":
                with pytest.raises(vks.SurfaceLostError):
                    swapchain.acquire(5)
            reported["violations"] = layer.violations()
            layer.reset()
            if result == "SURFACE_LOST":
                swapchain.retarget(vks.Headless(30, 30))
                reported["violations"] = []  # nothing proves anything of the old window
            faulty_order.draw(swapchain, 3)
            reported["extent"] = swapchain.extent
    return reported | {"left": faulty_order.left(layer)}


@pytest.mark.rule("A9")
@POLICIES
@pytest.mark.parametrize(
    ("result", "asked", "made", "said"),
    [("OUT_OF_DATE", 2, 1, "vkAcquireNextImageKHR"), ("SUBOPTIMAL", 1, 0, "a frame"), ("SURFACE_LOST", 1, 0, "")],
)
def test_acquire_tries_twice_where_it_is_out_of_date_and_once_else(
    result: str, asked: int, made: int, said: str, fences: bool
) -> None:
    reported = run_with_faults(_acquires, fences, result)
    assert said in reported["error"]
    assert (reported["asked"], reported["made"]) == (asked, made)
    assert reported["extent"] == ((30, 30) if result == "SURFACE_LOST" else (16, 16))
    assert (reported["violations"], reported["left"]) == ([], {})


def _look_beside_a_frame(layer: FaultLayer, fences: bool) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            fd = swapchain.frame_fd()
            await_readable(fd)  # the thread of the fd has put an image back, which the acquire takes
            layer.fail("vkAcquireNextImageKHR", result="OUT_OF_DATE")
            asked, made = layer.calls()["vkAcquireNextImageKHR"], layer.calls()["vkCreateSwapchainKHR"]
            frame = swapchain.acquire(5)
            await_readable(fd)  # it has asked for the next image, and was given OUT_OF_DATE
            reported: dict[str, Any] = {"asked": layer.calls()["vkAcquireNextImageKHR"] - asked}
            device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
            reported["made"] = layer.calls()["vkCreateSwapchainKHR"] - made
            swapchain.present(frame)
            with swapchain.frame(timeout=5) as frame:
                device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))
            reported["then"] = layer.calls()["vkCreateSwapchainKHR"] - made
    return reported | {"violations": layer.violations(), "left": faulty_order.left(layer)}


@pytest.mark.rule("E9")
@POLICIES
def test_a_look_for_the_next_frame_that_is_out_of_date_leaves_the_frame_that_is_out_alone(fences: bool) -> None:
    reported = run_with_faults(_look_beside_a_frame, fences)
    assert reported["asked"] >= 1
    assert (reported["made"], reported["then"]) == (0, 1)
    assert (reported["violations"], reported["left"]) == ([], {})


def _failed_create(layer: FaultLayer, fences: bool) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            faulty_order.draw(swapchain, 6)
            swapchain.resize(30, 20)
            layer.fail("vkCreateSwapchainKHR", count=2)
            errors = []
            for _ in range(2):
                with pytest.raises(vks.VulkanError) as raised:
                    swapchain.acquire(5)
                errors.append(str(raised.value))
            alive = [layer.live().get("swapchain", 0)]
            faulty_order.draw(swapchain, 12)
            alive.append(layer.live()["swapchain"])
            extent = swapchain.extent
    return {"errors": errors, "alive": alive, "extent": extent, "violations": layer.violations(),
            "left": faulty_order.left(layer)}  # fmt: skip


@pytest.mark.rule("A12")
@POLICIES
def test_a_failed_create_retires_the_old_swapchain_which_goes_later(fences: bool) -> None:
    reported = run_with_faults(_failed_create, fences)
    assert all("vkCreateSwapchainKHR" in text for text in reported["errors"])
    assert reported["alive"] == ([0, 1] if reported["alive"][0] == 0 else [1, 1])
    assert reported["extent"] == (30, 20)
    assert (reported["violations"], reported["left"]) == ([], {})


def _failed_present(layer: FaultLayer, fences: bool, result: str) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            faulty_order.draw(swapchain, 4)
            frame = swapchain.acquire(5)
            device.submit(device.record().clear(frame.view, (0, 1, 0, 1)))
            layer.fail("vkQueuePresentKHR", result=result)
            try:
                swapchain.present(frame)
                error = ""
            except vks.VkshareError as raised:
                error = str(raised)
            reported: dict[str, Any] = {"error": error, "closed": frame.is_closed}
            if not frame.is_closed:
                swapchain.present(frame)
            reported["statistics"] = swapchain.statistics()
            reported["picture"] = swapchain.capture()[0, 0].tolist() if error else None
            faulty_order.draw(swapchain, 12)
            reported["recreated"] = swapchain.statistics().recreated
            reported["semaphores"] = layer.live()["semaphore"]
    return reported | {"violations": layer.violations(), "left": faulty_order.left(layer)}


@pytest.mark.rule("A15")
@POLICIES
@pytest.mark.parametrize("result", ["OUT_OF_HOST_MEMORY", "OUT_OF_DEVICE_MEMORY", "OUT_OF_DATE", "SUBOPTIMAL"])
def test_a_present_that_fails_keeps_its_frame_or_is_counted_as_lost(result: str, fences: bool) -> None:
    reported = run_with_faults(_failed_present, fences, result, timeout=60)
    assert (reported["violations"], reported["left"]) == ([], {})
    assert reported["semaphores"] <= 16
    if "MEMORY" in result:
        assert "vkQueuePresentKHR" in reported["error"]
        assert not reported["closed"]
        assert reported["picture"][1] == 255
        assert (reported["statistics"].frames, reported["recreated"]) == (5, 0)
    else:
        assert reported["error"] == ""
        assert reported["closed"]
        assert reported["statistics"].lost_frames == (result == "OUT_OF_DATE")
        assert reported["recreated"] == 1


def _changed_mode(layer: FaultLayer, fences: bool, fails: bool) -> Any:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        with _create(device, fences) as swapchain:
            assert swapchain._images.native is not None
            listed = 1 in swapchain._images.native["modes"]  # VK_PRESENT_MODE_MAILBOX_KHR
            faulty_order.draw(swapchain, 4)
            made = layer.calls()["vkCreateSwapchainKHR"]
            try:
                swapchain.present_mode = "mailbox"
            except vks.UnsupportedError:
                return None
            if fails:
                frame = swapchain.acquire(5)
                before = swapchain._counters()["present_mode"]
                layer.fail("vkQueuePresentKHR")
                with pytest.raises(vks.VulkanError):
                    swapchain.present(frame)
                kept = swapchain._counters()["present_mode"] == before
                swapchain.present(frame)
            else:
                kept = True
            faulty_order.draw(swapchain, 6)
            made = layer.calls()["vkCreateSwapchainKHR"] - made
            mode = swapchain._counters()["present_mode"]
    return [made, listed, mode, kept, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A13")
@POLICIES
@pytest.mark.parametrize("fails", [False, True], ids=["works", "fails_first"])
def test_a_present_mode_changes_with_a_present_where_that_may_be_else_with_a_new_swapchain(
    fences: bool, fails: bool
) -> None:
    reported = run_with_faults(_changed_mode, fences, fails)
    if reported is None:
        pytest.skip("the driver has one present mode")
    made, listed, mode, kept, violations, left = reported
    assert made == (0 if fences and listed else 1)
    assert mode == 1
    assert kept, "a present that was not carried out has changed nothing"
    assert (violations, left) == ([], {})


def _dropped(layer: FaultLayer, fences: bool, suboptimal: bool) -> list[Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        if suboptimal:
            layer.fail("vkAcquireNextImageKHR", result="SUBOPTIMAL", count=0)
        swapchain = _create(device, fences)
        indices = []
        for turn in range(9):
            frame = swapchain.acquire(5)
            indices.append(frame.index)
            if turn % 2:
                device.submit(device.record().clear(frame.view, (1, 1, 1, 1)))
            frame.close()
            if turn % 3 == 2:
                swapchain.resize(20 + turn, 20)
        again = swapchain.acquire(5)
        del frame, again  # out, and never presented
        swapchain.close()
    return [indices, layer.violations(), faulty_order.left(layer), layer.peak()["swapchain"]]


@pytest.mark.rule("A19", "A20")
@POLICIES
@pytest.mark.parametrize("suboptimal", [False, True], ids=["success", "suboptimal"])
def test_frames_that_are_dropped_come_back_and_leave_no_semaphore_signalled(suboptimal: bool, fences: bool) -> None:
    indices, violations, left, alive = run_with_faults(_dropped, fences, suboptimal)
    assert all(len(set(indices[n : n + 3])) == 1 for n in (0, 3, 6)), indices
    assert (violations, left) == ([], {})
    assert alive <= 5


# ---- drivers that are strange ----------------------------------------------------------------------------------------


def _counts(layer: FaultLayer, fences: bool, forced: dict[str, int], wanted: int) -> dict[str, Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.force_images(forced.get("count", 0), minimum=forced.get("min"), maximum=forced.get("max"))
        with _create(device, fences, image_count=wanted) as swapchain:
            faulty_order.storm(swapchain, 3, 8)
            reported = {"images": swapchain.image_count, "frames": swapchain.statistics().frames}
    return reported | {"violations": layer.violations(), "left": faulty_order.left(layer)}


@pytest.mark.rule("A14")
@POLICIES
@pytest.mark.parametrize(
    ("forced", "wanted", "images"),
    [({"count": 1}, 3, 1), ({"count": 2}, 3, 2), ({"count": 8}, 3, 8), ({"max": 5, "min": 5}, 3, 5),
     ({"min": 1, "max": 4}, 9, 4)],
    ids=["one", "two", "eight", "more", "fewer"],
)  # fmt: skip
def test_any_image_count_goes(forced: dict[str, int], wanted: int, images: int, fences: bool) -> None:
    reported = run_with_faults(_counts, fences, forced, wanted, messages=False)  # of the layer's own counts
    assert reported["images"] == images
    assert reported["frames"] == 24
    assert (reported["violations"], reported["left"]) == ([], {})


def _too_many(layer: FaultLayer) -> list[Any]:
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.force_images(20)
        with pytest.raises(vks.VkshareError) as raised:
            _create(device, None)
        alive = layer.live().get("swapchain", 0)
    return [str(raised.value), alive, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A14")
def test_more_images_than_we_hold_are_refused_with_the_number() -> None:
    text, *rest = run_with_faults(_too_many, messages=False)
    assert "16" in text
    assert rest == [0, [], {}]


def _extents(layer: FaultLayer, fences: bool) -> list[Any]:
    reported: list[Any] = []
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.force_extent((40, 30))
        surface = device._backend.headless_surface()  # type: ignore[attr-defined]
        swapchain = device.create_swapchain(surface.handle, present_fences=fences)
        sizes = ((40, 30), (1, 1), (300, 200), (0, 0), (50, 20), (0, 0), (50, 20))
        for size in sizes:
            layer.force_extent(size)
            layer.fail("vkQueuePresentKHR", result="OUT_OF_DATE")  # as a window that has changed
            if reported and reported[-1][0] != (0, 0):
                faulty_order.draw(swapchain, 1)
            presents = layer.calls().get("vkQueuePresentKHR", 0)
            wall, cpu = time.monotonic(), time.process_time()
            faulty_order.draw(swapchain, 5)
            wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            presents = layer.calls().get("vkQueuePresentKHR", 0) - presents
            reported.append((size, swapchain.extent, presents, cpu / wall, wall))
        swapchain.close()
        surface.destroy()
    return [reported, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A14", "A24")
@POLICIES
def test_a_surface_that_says_its_size_is_obeyed_and_0x0_presents_nothing_and_comes_back(fences: bool) -> None:
    reported, violations, left = run_with_faults(_extents, fences)
    for size, extent, presents, load, wall in reported:
        if size == (0, 0):
            assert presents <= 1, reported
            assert load < 0.7, reported
            assert wall > 0.1, reported  # five frames that are not shown are not drawn as fast as can be
        else:
            assert extent == size, reported
            assert presents >= 4, reported
    assert violations == []
    assert left == {}


def _limits(layer: FaultLayer, fences: bool) -> list[Any]:
    reported: list[Any] = []
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.force_extent(undefined=True, minimum=(32, 32), maximum=(64, 48))
        with _create(device, fences) as swapchain:
            for size in ((1, 1), (40, 40), (1000, 1000), (10, 1000)):
                swapchain.resize(*size)
                faulty_order.draw(swapchain, 2)
                reported.append(swapchain.extent)
    return [reported, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A14")
@POLICIES
def test_a_surface_that_leaves_its_size_to_us_has_it_clamped(fences: bool) -> None:
    reported, violations, left = run_with_faults(_limits, fences)
    assert reported == [(32, 32), (40, 40), (64, 48), (32, 48)]
    assert (violations, left) == ([], {})


def _modes(layer: FaultLayer, mode: str) -> list[str]:
    reported = []
    with vks.open(backend="vulkan") as device:
        layer.reset()
        layer.force_modes(mode)
        for wanted in ("fifo", "mailbox"):
            try:
                with _create(device, None, present_mode=wanted) as swapchain:
                    faulty_order.draw(swapchain, 3)
                reported.append("shown")
            except vks.UnsupportedError as error:
                reported.append(str(error))
    return [*reported, *map(str, layer.violations()), *faulty_order.left(layer)]


@pytest.mark.rule("A11")
def test_present_modes_that_are_not_there_are_refused_with_those_that_are() -> None:
    assert run_with_faults(_modes, "fifo")[0] == "shown"
    fifo, mailbox, *rest = run_with_faults(_modes, "demand")
    assert rest == []
    assert "'fifo'" in fifo
    assert "'mailbox'" in mailbox


def _without_fences(layer: FaultLayer) -> list[Any]:
    layer.hide_extension("VK_EXT_swapchain_maintenance1")
    layer.hide_extension("VK_KHR_swapchain_maintenance1")
    with vks.open(backend="vulkan") as device:
        with pytest.raises(vks.UnsupportedError) as refused:
            _create(device, True)
        with _create(device, None) as swapchain:
            faulty_order.storm(swapchain, 6, 5)
            by_fences = swapchain.statistics().by_fences
    return [str(refused.value), by_fences, layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A22")
def test_without_maintenance1_the_acquire_history_does_it() -> None:
    text, *rest = run_with_faults(_without_fences)
    assert "VK_EXT_swapchain_maintenance1" in text
    assert rest == [False, [], {}]


def _without_headless(layer: FaultLayer) -> list[Any]:
    with vks.open(backend="vulkan") as device, _create(device, None) as swapchain:
        faulty_order.storm(swapchain, 6, 5)
        is_ring = swapchain._images.native is None
        shown = swapchain.capture().shape
    return [is_ring, shown, layer.calls().get("vkQueuePresentKHR", 0), layer.violations(), faulty_order.left(layer)]


@pytest.mark.rule("A24")
def test_without_headless_surfaces_a_ring_does_it() -> None:
    reported = run_with_faults(_without_headless, faults="hide VK_EXT_headless_surface", implicit=True)
    assert reported == [True, (20, 21, 4), 0, [], {}]

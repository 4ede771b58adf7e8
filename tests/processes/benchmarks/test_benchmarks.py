"""The benchmarks measure what they say. How fast things are is for docs/results.md, never for a test."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import bench_sides
from support.tree_paths import ROOT

import vkshare
from benchmarks import (
    QUESTIONS,
    compiler,
    measure,
    processes,
    pypi_swapchain,
    report,
    submit,
    swapchain,
    swapchain_pairs,
    xvfb,
)
from benchmarks.__main__ import main
from benchmarks.c_swapchain import HEADLESS, RING, CDevice, CSwapchain
from benchmarks.compiler import CFailed, ffi
from benchmarks.nothing import QUEUE, VK_DEVICE, NothingDriver
from benchmarks.plan import Plan
from benchmarks.raster import HEIGHT, TRIANGLES, WIDTH, Scene, reference
from benchmarks.shared_block import SharedBlock, keyed_ring
from benchmarks.swapchain import NothingSwapchain
from vkshare.util.handles import as_int

pytestmark = pytest.mark.program


ON_THE_CPU_BACKEND = ("frames", "compositor", "view", "remote")
OF_EACH_DRIVER = ("submit", "swapchain")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CC", "/nonexistent/cc")
    compiler.library.cache_clear()
    yield
    compiler.library.cache_clear()


@pytest.fixture
def vulkan_device() -> Iterator[vkshare.Device]:
    adapters = vkshare.adapters("vulkan")
    if not adapters:
        pytest.skip("there is no Vulkan driver here")
    with vkshare.open(adapters[0], validation=False) as device:
        yield device


# ---- the command ----------------------------------------------------------------------------------------------------


# Seconds, even with --quick.
LONG = {"compositor", "frames", "goldens", "handoff", "raster", "ray", "remote", "server", "video", "view", "vsync"}


@pytest.mark.parametrize(
    "question", [pytest.param(name, marks=pytest.mark.full if name in LONG else ()) for name in QUESTIONS]
)
def test_every_question_has_an_answer_with_targets(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    if driver != "cpu" and question in ON_THE_CPU_BACKEND:
        pytest.skip("it asks the CPU backend alone: the run on cpu tests it")
    if driver in ("lavapipe22", "swiftshader") and question not in OF_EACH_DRIVER:
        pytest.skip("the runs on cpu and lavapipe25 test it")
    assert main([question, "--json", "--pin", "--quick", "--seconds", "0.05"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["machine"]["cores"] >= 1
    if question in ("gl", "cuda", "engines", "view", "mirror", "ray") and not reported["rows"]:
        pytest.skip(
            reported["notes"][0]
        )  # no OpenGL, or CUDA, opens this run's memory, or there is no browser or one adapter: their tests test that
    judged = [row for row in reported["rows"] if row["must"] is not None]
    assert judged
    for row in reported["rows"]:
        assert row["ours"]["least"] <= row["ours"]["median"] <= row["ours"]["most"]
    for row in judged:
        if row["theirs"] is not None or row["kind"] in ("time", "a second", "count"):
            assert row["verdict"] in ("met", "not met")


def test_the_table_names_what_was_measured_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host-ops", "--pin", "--seconds", "0.02"]) == 0
    reported = capsys.readouterr().out
    assert "load average" in reported
    for what in ("fence.value", "fence.signal(v + 1)", "fence.wait(v), reached", "MUST", "VERDICT"):
        assert what in reported


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_that_is_not_positive_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mutex", "--seconds", seconds])
    assert "positive number of seconds" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_one_line_and_a_status() -> None:
    command = [sys.executable, "-m", "benchmarks", "mutex", "--quick", "--seconds", "0.01"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
    assert ended.returncode == 1
    assert "benchmarks: standard output cannot be written: No space left on device" in ended.stderr.splitlines()
    assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_it_says_so_and_skips_the_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutex", "--json", "--pin", "--seconds", "0.02"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert all(row["theirs"] is None for row in reported["rows"])
    assert any("/nonexistent/cc" in note for note in reported["notes"])
    assert main(["host-ops", "--pin", "--seconds", "0.02"]) == 0
    assert "/nonexistent/cc" in capsys.readouterr().out


# ---- taking turns ---------------------------------------------------------------------------------------------------


def _takes(seconds: float, log: list[str], name: str) -> Callable[[int], float]:
    def timed(n: int) -> float:
        log.append(name)
        return n * seconds

    return timed


def test_contenders_take_turns_and_are_compared_round_by_round() -> None:
    log: list[str] = []
    pair = {name: _takes(cost, log, name) for name, cost in (("a", 3e-6), ("b", 2e-6))}
    samples = measure.take_turns(pair, seconds=1e-9)
    assert "".join(log).endswith("ab" * len(samples["a"]))
    assert len(samples["a"]) == len(samples["b"]) >= 5
    assert measure.ratios(samples["a"], samples["b"]).median == pytest.approx(1.5)
    assert measure.differences(samples["a"], samples["b"]).median == pytest.approx(1e-6)


def test_a_verdict_is_by_the_median_and_in_the_right_direction() -> None:
    spread = measure.Spread.of([1.0, 5.0, 9.0])
    assert report.Must(5.0).is_met(spread)
    assert not report.Must(4.9).is_met(spread)
    assert report.Must(5.0, at_least=True).is_met(spread)
    assert not report.Must(5.1, at_least=True).is_met(spread)


# ---- the references do the work that they are compared for ----------------------------------------------------------


def test_the_driver_counts_what_python_and_c_submit() -> None:
    driver = NothingDriver()
    with driver.open() as device:
        fence = device.create_fence()
        for loop in submit.loops(device, fence).values():
            loop(10)
        assert fence.value == 20  # two of the three signal it
        assert device.statistics().submitted == 30
        semaphore = driver.semaphore()
        assert driver.time_submits([semaphore], 1, 7) > 0
        value = ctypes.c_uint64()
        look = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
        look(driver.function("vkGetSemaphoreCounterValue"))(1, semaphore, ctypes.addressof(value))
        assert value.value == 7


def test_a_driver_that_lags_has_work_under_way() -> None:
    driver = NothingDriver()
    with driver.open() as device:
        fence = device.create_fence()
        driver.lag(1)
        device.submit(signals=((fence, 100),))
        assert [fence.value for _ in range(3)] == [1, 2, 3]
        driver.lag(0)
        assert fence.value == 100


def test_the_swapchain_in_c_passes_frames_on_and_follows_resizes() -> None:
    """On the driver that does nothing: in turn, each time with the semaphores of the image and of the frame."""
    driver = NothingDriver()
    capabilities = driver.function("vkGetPhysicalDeviceSurfaceCapabilitiesKHR")
    gpu = CDevice(driver.get_proc_addr, VK_DEVICE, QUEUE, 0, 1, capabilities)
    with CSwapchain(gpu, (256, 256), format=37, wanted_images=3) as theirs:
        chain = theirs.chain
        assert theirs.frames(10) > 0
        assert (chain.n_images, chain.n_flights, chain.extent.width, chain.extent.height) == (3, 2, 256, 256)
        rendered, before = [image.rendered for image in chain.images], chain.swapchain
        assert len({*rendered[:3], *(flight.acquired for flight in chain.flights[0:2])}) == 5
        assert theirs.resizes([(64, 32), (48, 24)])(3) > 0
        assert (chain.extent.width, chain.extent.height) == (64, 32)
        assert chain.swapchain != before
        assert [image.rendered for image in chain.images] == rendered


@pytest.mark.parametrize("by_fences", [False, True])
def test_a_swapchain_on_the_driver_that_does_nothing_presents_what_python_asks_for(by_fences: bool) -> None:
    driver = NothingDriver()
    with driver.open() as device, NothingSwapchain(driver, device, by_fences=by_fences) as ours:
        swapchain.one_call(ours)(10)
        swapchain.three_calls(device, ours)(10)
        reported = ours._counters()
        assert reported["frames"] == 20
        assert reported["semaphores"] <= 3 * 3 + 2
        assert device.statistics().submitted >= 20


@pytest.mark.parametrize("kind", ["headless", "ring", "headless with present fences"])
def test_the_swapchain_in_c_runs_on_a_real_driver(kind: str, vulkan_device: vkshare.Device) -> None:
    has = swapchain_pairs.extensions(vulkan_device.adapter)
    if kind.startswith("headless") and "VK_EXT_headless_surface" not in has:
        pytest.skip("the driver has no VK_EXT_headless_surface")
    fences = kind.endswith("fences")
    if fences and "VK_EXT_swapchain_maintenance1" not in has:
        pytest.skip("the driver has no VK_EXT_swapchain_maintenance1")
    backend: Any = vulkan_device._backend
    gpu, surface = CDevice.of(vulkan_device), None if kind == "ring" else backend.headless_surface()
    how = {"kind": HEADLESS, "surface": as_int(surface.handle)} if surface else {"kind": RING}
    with CSwapchain(gpu, (64, 64), format=44, wanted_images=3, has_present_fences=fences, **how) as theirs:
        assert theirs.frames(20) > 0
        assert theirs.resizes([(64, 32), (48, 24)])(5) > 0
        assert (theirs.chain.extent.width, theirs.chain.extent.height) == (64, 32)
        assert theirs.frames(20) > 0
        theirs.clear_the_faster_way()
        theirs.wait()
        if kind == "headless":
            for prebuilt in (False, True):
                assert pypi_swapchain.frames(theirs, prebuilt=prebuilt)(20) > 0
    if surface:
        surface.destroy()


def test_a_driver_without_swapchains_is_refused_by_c() -> None:
    none = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(lambda device, name: None)
    with pytest.raises(CFailed, match="lacks functions"):
        CDevice(ctypes.cast(none, ctypes.c_void_p).value or 0, VK_DEVICE, QUEUE, 0, 0, 0)


def test_an_x_server_of_the_benchmark_comes_and_goes() -> None:
    try:
        with xvfb.xvfb() as server:
            assert Path(f"/tmp/.X11-unix/X{server.display[1:]}").exists()
            assert Path(f"/proc/{server.pid}").exists()
    except xvfb.NoXvfb as error:
        pytest.skip(str(error))
    assert not Path(f"/proc/{server.pid}").exists()


def test_a_child_returns_what_its_function_returns_or_tells_why_not() -> None:
    assert processes.call(os.getenv, "VKSHARE_BENCH_TEST", environment={"VKSHARE_BENCH_TEST": "yes"}) == "yes"
    with pytest.raises(processes.ChildFailed, match="FileNotFoundError"):
        processes.call(os.stat, "/nonexistent")
    with pytest.raises(processes.ChildFailed, match="with status 3"):
        processes.call(os._exit, 3)


def test_counts_and_bytes_are_written_as_such() -> None:
    spread = measure.Spread.of([12345678.0])
    row = report.Row("w", "-", spread, None, report.COUNT, measure.Spread.of([5.0]), report.Must(14), unit="bytes")
    reported = report.text([row])
    assert "12.3 MB" in reported
    assert "<= 14" in reported


def test_the_mutex_in_c_hands_over_between_processes() -> None:
    with SharedBlock(4096) as block, processes.peer(bench_sides.ring_side, block) as other:
        mine, theirs = other.play("ring", 1000, keyed_ring(block, 3, 0, 1))
        assert mine > 0
        assert theirs > 0
        words = np.frombuffer(block.map, np.uint64)[: 3 * 8 : 8]  # epoch << 1 of three mutexes, 64 bytes apart
        assert sorted(int(word) >> 1 for word in words) == [666, 666, 668]


def test_a_peer_that_fails_tells_why() -> None:
    with (
        processes.peer(bench_sides.failing_side) as other,
        pytest.raises(processes.ChildFailed, match="RuntimeError: on purpose"),
    ):
        other.play("fail", 1, lambda n: 0.0)


def test_the_c_loop_and_the_cpu_backend_composite_the_same_picture() -> None:
    scene = Scene()
    expected = scene.source[::-1].copy()
    with (
        vkshare.open(backend="cpu") as device,
        device.create_surface(WIDTH, HEIGHT) as source,
        device.create_surface(WIDTH, HEIGHT) as target,
    ):
        source.acquire()
        target.acquire()
        source.write(scene.source)
        target.write(expected)
        device.submit(device.record().composite(source, target))
        drawn = target.read()
    target, source_pixels = (ffi.from_buffer("uint32_t[]", each) for each in (expected, scene.source))
    reference().reference_over_baseline(target, source_pixels, WIDTH * HEIGHT)
    assert int(np.abs(drawn.astype(int) - expected.astype(int)).max()) <= 1


def test_the_scene_has_its_triangles_within_the_picture() -> None:
    scene = Scene()
    assert scene.vertices.shape == (TRIANGLES, 3, 6)
    assert np.abs(scene.vertices[:, :, :2]).max() < 1.05
    assert (scene.source[:, :, :3] <= scene.source[:, :, 3:]).all()


# ---- placement ------------------------------------------------------------------------------------------------------


def test_a_placement_moves_every_thread_and_sets_it_free_again() -> None:
    import os
    import threading

    before = os.sched_getaffinity(0)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        for _ in Plan(pinned_only=True).alone():
            assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id or 0) == {min(before)}
        assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id or 0) == before
    finally:
        done.set()
        thread.join()

"""`vkshare bench`: that it measures what it says. How fast things are is for docs/results.md, never for a test."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vkshare
from vkshare.bench import (
    QUESTIONS,
    c_swapchain,
    child,
    compiler,
    keyed_ring,
    loops,
    measure,
    placement,
    pypi_swapchain,
    report,
    swapchain_cost,
    xvfb,
)
from vkshare.bench.c_swapchain import CDevice
from vkshare.bench.nothing import QUEUE, VK_DEVICE, NothingDriver
from vkshare.bench.peer import Peer, PeerFailed
from vkshare.bench.raster_scene import HEIGHT, TRIANGLES, WIDTH, Scene
from vkshare.bench.shared_block import SharedBlock
from vkshare.bench.swapchain_cost import NothingSwapchain
from vkshare.cli import main

ROOT = Path(__file__).parent.parent


ON_THE_CPU_BACKEND = ("frames", "compositor")
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_an_answer_with_targets(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    if driver != "cpu" and question in ON_THE_CPU_BACKEND:
        pytest.skip("it asks the CPU backend alone: the run on cpu tests it")
    if driver in ("lavapipe22", "swiftshader") and question not in OF_EACH_DRIVER:
        pytest.skip("the runs on cpu and lavapipe25 test it")
    assert main(["bench", question, "--json", "--pin", "--quick", "--seconds", "0.05"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"]["cores"] >= 1
    if question in ("gl", "cuda") and not told["rows"]:
        pytest.skip(told["notes"][0])  # no OpenGL, or CUDA, opens this run's memory: their tests test that it says so
    judged = [row for row in told["rows"] if row["must"] is not None]
    assert judged
    for row in told["rows"]:
        assert row["ours"]["least"] <= row["ours"]["median"] <= row["ours"]["most"]
    for row in judged:
        if row["theirs"] is not None or row["kind"] in ("time", "a second", "count"):
            assert row["verdict"] in ("met", "not met")


def test_the_table_names_what_was_measured_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "host-ops", "--pin", "--seconds", "0.02"]) == 0
    told = capsys.readouterr().out
    assert "load average" in told
    for what in ("fence.value", "fence.signal(v + 1)", "fence.wait(v), reached", "MUST", "VERDICT"):
        assert what in told


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_that_is_not_positive_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "mutex", "--seconds", seconds])
    assert "positive number of seconds" in capsys.readouterr().err


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_it_says_so_and_skips_the_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "mutex", "--json", "--pin", "--seconds", "0.02"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all(row["theirs"] is None for row in told["rows"])
    assert any("/nonexistent/cc" in note for note in told["notes"])
    assert main(["bench", "host-ops", "--pin", "--seconds", "0.02"]) == 0
    assert "/nonexistent/cc" in capsys.readouterr().out


# ---- taking turns ---------------------------------------------------------------------------------------------------


def _takes(seconds: float, log: list[str], name: str) -> Callable[[int], float]:
    def timed(n: int) -> float:
        log.append(name)
        return n * seconds

    return timed


def test_contenders_take_turns_and_are_compared_round_by_round() -> None:
    log: list[str] = []
    pair = [measure.Contender(name, _takes(cost, log, name)) for name, cost in (("a", 3e-6), ("b", 2e-6))]
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
        commands, fence = device.record(), device.create_fence()
        loops.submit_signal_next(device, commands, fence)(10)
        loops.submit_signal_value(device, commands, fence)(10)
        assert fence.value == 20
        assert device.statistics().submitted == 20
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


@pytest.mark.parametrize(
    ("name", "structures", "constants"),
    [("vulkan_subset.h", 7, 6), ("vulkan_present.h", 24, 35), ("vulkan_draw.h", 2, 3)],
)
def test_the_subset_of_vulkan_is_as_the_vendored_header_has_it(
    name: str, structures: int, constants: int, tmp_path: Path
) -> None:
    """Size and offsets of each structure, and the values of the constants."""
    if not (ROOT / "native/third_party").is_dir() or not (ROOT / "vkshare").is_dir():
        pytest.skip("an installed wheel is tested here, without the source tree")
    subset = (ROOT / "vkshare/bench/c" / name).read_text()
    declared = [line.split()[2] for line in subset.splitlines() if line.startswith("typedef struct") and "{" in line]
    values = [line.split()[0] for line in subset.splitlines() if line.startswith("    VK_")]
    assert len(declared) >= structures
    assert len(values) >= constants
    printed = [
        _run_c(tmp_path, header, _fields(subset), declared, values)
        for header in (f"vkshare/bench/c/{name}", "native/third_party/vulkan/vulkan_core.h")
    ]
    assert printed[0] == printed[1]


def _run_c(folder: Path, header: str, fields: dict[str, list[str]], structures: list[str], constants: list[str]) -> str:
    lines = [f'printf("{s} %zu\\n", sizeof({s}));' for s in structures]
    lines += [f'printf("{s}.{f} %zu\\n", offsetof({s}, {f}));' for s in structures for f in fields[s]]
    lines += [f'printf("{c} %lld\\n", (long long){c});' for c in constants]
    source, program = folder / "print.c", folder / "print"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{ROOT / header}"\nint main(void) {{ {" ".join(lines)} }}'
    )
    include = f"-I{ROOT / 'native/third_party'}"
    subprocess.run(["cc", "-w", include, str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def _fields(header: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for block in header.split("typedef struct ")[1:]:
        if "{" in block.splitlines()[0]:
            body = block.split("{")[1].split("}")[0]
            found[block.split()[0]] = [line.split()[-1].strip("*;") for line in body.strip().splitlines()]
    return found


def test_the_swapchain_in_c_passes_frames_on_and_follows_resizes() -> None:
    """On the driver that does nothing: in turn, each time with the semaphores of the image and of the frame."""
    driver = NothingDriver()
    with (
        CDevice.over(driver.get_proc_addr, VK_DEVICE, QUEUE) as gpu,
        gpu.swapchain((256, 256), vk_format=37, images=3) as chain,
    ):
        assert chain.frames(10) > 0
        before = chain.handles()
        assert (before.n_images, before.n_flights, before.width, before.height) == (3, 2, 256, 256)
        assert len({*before.rendered[:3], *before.acquired[:2]}) == 5
        assert chain.resizes([(64, 32), (48, 24)])(3) > 0
        after = chain.handles()
        assert (after.width, after.height) == (64, 32)
        assert after.swapchain != before.swapchain
        assert list(after.rendered) == list(before.rendered)


@pytest.mark.parametrize("by_fences", [False, True])
def test_a_swapchain_on_the_driver_that_does_nothing_presents_what_python_asks_for(by_fences: bool) -> None:
    driver = NothingDriver()
    with driver.open() as device, NothingSwapchain(driver, device, by_fences=by_fences) as swapchain:
        swapchain_cost.one_call(swapchain)(10)
        swapchain_cost.three_calls(device, swapchain)(10)
        told = swapchain.counters()
        assert told["frames"] == 20
        assert told["semaphores"] <= 3 * 3 + 2
        assert device.statistics().submitted >= 20


@pytest.mark.parametrize("kind", ["headless", "ring", "headless with present fences"])
def test_the_swapchain_in_c_runs_on_a_real_driver(kind: str, vulkan_device: vkshare.Device) -> None:
    has = c_swapchain.extensions(vulkan_device)
    if kind.startswith("headless") and "VK_EXT_headless_surface" not in has:
        pytest.skip("the driver has no VK_EXT_headless_surface")
    fences = kind.endswith("fences")
    if fences and "VK_EXT_swapchain_maintenance1" not in has:
        pytest.skip("the driver has no VK_EXT_swapchain_maintenance1")
    which = c_swapchain.RING if kind == "ring" else c_swapchain.HEADLESS
    with (
        CDevice.open(vulkan_device, present_fences=fences) as gpu,
        gpu.swapchain((64, 64), kind=which, vk_format=44, images=3, present_fences=fences) as chain,
    ):
        assert chain.frames(20) > 0
        assert chain.resizes([(64, 32), (48, 24)])(5) > 0
        assert (chain.handles().width, chain.handles().height) == (64, 32)
        assert chain.frames(20) > 0
        assert chain.clear_the_faster_way() in (False, True)
        chain.wait()
        if kind == "headless":
            for prebuilt in (False, True):
                assert pypi_swapchain.frames(chain, prebuilt=prebuilt)(20) > 0


def test_a_driver_without_swapchains_is_refused_by_c() -> None:
    none = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(lambda device, name: None)
    with pytest.raises(c_swapchain.VulkanFailed, match="lacks functions"):
        CDevice.over(ctypes.cast(none, ctypes.c_void_p).value or 0, VK_DEVICE, QUEUE)


def test_an_x_server_of_the_benchmark_comes_and_goes() -> None:
    try:
        with xvfb.xvfb() as server:
            assert Path(f"/tmp/.X11-unix/X{server.display[1:]}").exists()
            assert Path(f"/proc/{server.pid}").exists()
    except xvfb.NoXvfb as error:
        pytest.skip(str(error))
    assert not Path(f"/proc/{server.pid}").exists()


def test_a_child_returns_what_its_function_returns_or_tells_why_not() -> None:
    assert child.call("os", "getenv", "VKSHARE_BENCH_TEST", environment={"VKSHARE_BENCH_TEST": "yes"}) == "yes"
    with pytest.raises(child.ChildFailed, match="FileNotFoundError"):
        child.call("os", "stat", "/nonexistent")
    with pytest.raises(child.ChildFailed, match="with status 3"):
        child.call("os", "_exit", 3)


def test_counts_and_bytes_are_written_as_such() -> None:
    spread = measure.Spread.of([12345678.0])
    row = report.Row("w", "-", spread, None, report.COUNT, measure.Spread.of([5.0]), report.Must(14), unit="bytes")
    told = report.text([row])
    assert "12.3 MB" in told
    assert "<= 14" in told


def test_the_mutex_in_c_hands_over_between_processes() -> None:
    with SharedBlock(4096) as block, Peer("support.bench_sides", "ring_side", block) as peer:
        ring = keyed_ring.in_c(3, 0, 1)
        mine, theirs = peer.play("ring", 1000, lambda n: ring(block.address, None, 0, n))
        assert mine > 0
        assert theirs > 0
        words = np.frombuffer(block.map, np.uint64)[: 3 * 8 : 8]  # epoch << 1 of three mutexes, 64 bytes apart
        assert sorted(int(word) >> 1 for word in words) == [666, 666, 668]


def test_a_peer_that_fails_tells_why() -> None:
    with (
        Peer("support.bench_sides", "failing_side") as peer,
        pytest.raises(PeerFailed, match="RuntimeError: on purpose"),
    ):
        peer.play("fail", 1, lambda n: 0.0)


def test_the_c_loop_and_the_cpu_backend_composite_the_same_picture() -> None:
    scene = Scene()
    expected = scene.source[::-1].copy()
    library = compiler.library("raster_reference.c", flags=("-O3", "-DSUFFIX=baseline"))
    over = compiler.function(
        library, "reference_over_baseline", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, returns=None
    )
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
    over(expected.ctypes.data, scene.source.ctypes.data, WIDTH * HEIGHT)
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
        with placement.placed(placement.alone(True)[0]):
            assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id or 0) == {min(before)}
        assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id or 0) == before
    finally:
        done.set()
        thread.join()

"""The layer and its switch: which calls it sees, the errors where it is missing, and submissions outside a turn."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from support.engine_process import LAYER, run_with_layer
from support.wgpu_engine import Engine, pair

import vkshare as vks
from vkshare.engines import layer
from vkshare.errors import InvalidCallError, UnsupportedError


@pytest.fixture(autouse=True)
def _needs_wgpu(vks_adapter: vks.Adapter) -> None:
    pytest.importorskip("wgpu", reason="wgpu is not installed (vkshare[engines])")
    if vks_adapter.backend != "vulkan":
        pytest.skip("wgpu has no device on the CPU backend")


# ---- the switch ------------------------------------------------------------------------------------------------------


def environment_of_enable(before: dict[str, str]) -> tuple[str, list[str]]:
    for name in ("VK_LAYER_PATH", "VK_ADD_LAYER_PATH", "VK_INSTANCE_LAYERS"):
        os.environ.pop(name, None)
    os.environ.update(before)
    vks.engines.enable()
    vks.engines.enable()
    folders = os.environ.get("VK_LAYER_PATH") or os.environ["VK_ADD_LAYER_PATH"]
    return os.environ["VK_INSTANCE_LAYERS"], folders.split(":")


@pytest.mark.rule("E10")
@pytest.mark.parametrize("variable", ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH"])
def test_enable_adds_to_what_the_user_has_set_and_changes_nothing_the_second_time(variable: str) -> None:
    names, folders = run_with_layer(environment_of_enable, {variable: "/of/mine", "VK_INSTANCE_LAYERS": "VK_LAYER_x"})
    assert names == f"VK_LAYER_x:{LAYER}"
    assert folders[0] == "/of/mine"
    assert len(folders) == 2
    assert os.path.isfile(f"{folders[1]}/VkLayer_vkshare_engines.json")


def too_late() -> tuple[str, str]:
    import wgpu

    raw: Any = wgpu.gpu.request_adapter_sync().request_device_sync()
    with pytest.raises(UnsupportedError) as enabled:
        vks.engines.enable()
    with pytest.raises(UnsupportedError) as opened:
        vks.engines.wgpu.open(raw)
    return str(enabled.value), str(opened.value)


@pytest.mark.rule("E10", "E11")
def test_without_the_layer_the_errors_say_that_enable_comes_first() -> None:
    enabled, opened = run_with_layer(too_late)
    assert "made its Vulkan instance already" in enabled
    assert "before the first adapter is requested" in enabled
    assert "without the layer" in opened
    assert "call vkshare.engines.enable() first" in opened


def wrong_arguments() -> None:
    with pair(16, 16, "rgba8unorm") as (engine, near, _, far):
        with pytest.raises(TypeError, match="wgpu_device"):
            vks.engines.wgpu.open(near)
        with pytest.raises(TypeError, match="surface"):
            vks.engines.wgpu.texture(engine.device)  # type: ignore[arg-type]
        with pytest.raises(InvalidCallError, match=r"not wgpu's: open it .* open_surface\(\)"):
            vks.engines.wgpu.texture(far)
        with engine.device.create_surface(16, 16, usage=("sample",)) as sampled:  # noqa: SIM117
            with pytest.raises(UnsupportedError, match="neither usage 'render' nor 'copy'"):
                vks.engines.wgpu.texture(sampled)
        with engine.device.create_surface(16, 16, "rgba16unorm", usage=("copy",)) as wide:  # noqa: SIM117
            with pytest.raises(UnsupportedError, match=r"wgpu has no format 'rgba16unorm'|rgba16unorm texture"):
                vks.engines.wgpu.texture(wide)
        with engine.device.create_surface(16, 16, "d32float") as deep:  # noqa: SIM117
            with pytest.raises(UnsupportedError, match="the layer shares colours; draw the depth into r32float"):
                vks.engines.wgpu.texture(deep)
        near.close()
        with pytest.raises(vks.ClosedError):
            vks.engines.wgpu.texture(near)
        with vks.open(backend="cpu") as cpu, cpu.create_surface(16, 16) as surface:
            with pytest.raises(InvalidCallError):
                vks.engines.wgpu.texture(surface)
            with surface.export() as descriptor:
                try:
                    opened = engine.device.open_surface(descriptor)
                except UnsupportedError:
                    return  # the driver imports no host memory
            with opened, pytest.raises(UnsupportedError, match="the CPU backend's"):
                vks.engines.wgpu.texture(opened)


@pytest.mark.rule("E11")
def test_wrong_devices_and_surfaces_are_refused_by_name() -> None:
    run_with_layer(wrong_arguments)


def one_offer() -> bool:
    """Another image is made first, in the same thread."""
    with pair(32, 16, "rgba8unorm") as (engine, near, _, far):
        with layer.offered(near, near._open_image()) as was_taken:  # type: ignore[arg-type]
            other = engine.raw.create_texture(size=(64, 16, 1), format="rgba8unorm", usage=7)  # copies, and sampling
            made = engine.raw.create_texture(size=(32, 16, 1), format="rgba8unorm", usage=7)  # copies, and sampling
            assert was_taken()
        pixels = np.full((16, 64, 4), 9, np.uint8)
        engine.write(other, pixels)
        with near.access(0, 1, 60):
            engine.write(made, pixels[:, :32] * 2)
        with far.access(1, 0, 60):
            return bool((far.read() == 18).all()) and bool((engine.read(other, pixels) == 9).all())


@pytest.mark.rule("E11")
def test_the_first_image_that_fits_is_the_surfaces() -> None:
    assert run_with_layer(one_offer) is True


# ---- the calls -------------------------------------------------------------------------------------------------------


def wrapped_calls() -> dict[str, bool]:
    """Which functions of an engine's device are the layer's."""
    vks.engines.enable()
    from vkshare.backends.vulkan.api import (
        VK,
        address,
        device_functions,
        ffi,
        global_functions,
        instance_functions,
        new,
    )

    vk = global_functions()
    application = new("VkApplicationInfo", pEngineName="an engine", apiVersion=VK.API_VERSION_1_3)
    instance = vk.make("vkCreateInstance", new("VkInstanceCreateInfo", pApplicationInfo=application), None)
    functions = instance_functions(instance)
    physical_device = functions.list("vkEnumeratePhysicalDevices", instance)[0]
    queue = new("VkDeviceQueueCreateInfo", queueFamilyIndex=0, pQueuePriorities=[1.0])
    device = functions.make(
        "vkCreateDevice", physical_device, new("VkDeviceCreateInfo", pQueueCreateInfos=[queue]), None
    )
    of_device = device_functions(functions, device)
    names = "vkCmdDraw", "vkCmdDispatch", "vkMapMemory", "vkCreateBuffer", "vkQueueSubmit", "vkCreateImage"
    found = {name: is_of_layer(address(of_device.pointer(name))) for name in names}
    of_device.vkDestroyDevice(device, ffi.NULL)
    functions.vkDestroyInstance(instance, ffi.NULL)
    return found


def is_of_layer(function: int) -> bool:
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(each, 16) for each in line.split()[0].split("-"))
            if first <= function < last:
                return "VkLayer_vkshare_engines" in line
    return False


@pytest.mark.rule("E10")
def test_only_calls_about_images_and_submissions_go_through_the_layer() -> None:
    found = run_with_layer(wrapped_calls)
    assert {name for name, is_wrapped in found.items() if is_wrapped} == {"vkQueueSubmit", "vkCreateImage"}


def own_devices_are_not_wrapped() -> bool:
    vks.engines.enable()
    from vkshare.backends.vulkan.api import address

    with vks.open(backend="vulkan") as device:
        vk = device._backend.context.vk  # type: ignore[attr-defined]
        return is_of_layer(address(vk.pointer("vkQueueSubmit2")))


@pytest.mark.rule("E10")
def test_vkshares_own_devices_go_past_the_layer() -> None:
    assert run_with_layer(own_devices_are_not_wrapped) is False


def many_engines_and_threads(turns: int) -> int:
    """Two devices of wgpu, two threads on each, each with a surface, and vkshare's own work on the same queues."""
    import wgpu

    failed: list[BaseException] = []
    first = Engine()
    second = wgpu.gpu.request_adapter_sync().request_device_sync()
    engines = [first, Engine.__new__(Engine)]
    vars(engines[1]).update(wgpu=wgpu, raw=second, device=vks.engines.wgpu.open(second, name="second"), _copy=None)

    def work(engine: Engine, number: int) -> None:
        try:
            with engine.device.create_surface(64, 16) as surface:
                texture = engine.texture(surface)
                for turn in range(turns):
                    with surface.access(2 * turn, 2 * turn + 1, 60):
                        engine.clear(texture, (number / 5, 0, 1, 1))
                    with surface.access(2 * turn + 1, 2 * turn + 2, 60) as view:
                        engine.device.submit(engine.device.record().fill_rect(view, (0, 0, 8, 8), (0, 1, 0, 1)))
                        pixels = surface.read()
                        assert (pixels[0, 0] == (0, 255, 0, 255)).all()
                        assert (pixels[15, 63] == (51 * number, 0, 255, 255)).all()
                    surface.acquire(2 * turn + 2, 60)
                    surface.release(2 * turn + 2)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(engines[n % 2], n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in engines:
        engine.device.close()
    if failed:
        raise failed[0]
    return layer.misuses()


@pytest.mark.rule("E10", "E11", "E12")
@pytest.mark.parametrize("validation", ["", "below"])
def test_two_engines_with_two_threads_each_and_vkshares_own_work_share_the_queues(validation: str) -> None:
    assert run_with_layer(many_engines_and_threads, 5 if validation else 100, validation=validation) == 0


# ---- turns -----------------------------------------------------------------------------------------------------------


def outside_turns() -> tuple[list[str], int, bool]:
    reports: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reports.append(record.getMessage())

    logging.getLogger("vkshare.engines").addHandler(Handler())
    with pair(64, 16, "rgba8unorm") as (engine, near, texture, far):
        with near.access(0, 1, 60):
            engine.sampled(texture)
        engine.raw.queue.submit([])  # uses no surface
        engine.sampled(texture)  # by a descriptor set alone: wgpu records no barrier
        engine.clear(texture, (1, 0, 0, 1))
        with near.access(1, 2, 60):
            engine.clear(texture, (0, 0, 1, 1))
        near.close()
        engine.clear(texture, (1, 1, 1, 1))
        with far.access(2, 0, 60):
            return reports, layer.misuses(), bool((np.asarray(far.read())[..., 3] == 255).all())


@pytest.mark.rule("E12")
def test_a_submission_outside_a_turn_is_reported_once_until_the_next_turn() -> None:
    reports, misuses, _ = run_with_layer(outside_turns)
    assert misuses == 3
    assert len(reports) == 2
    assert "64x16 rgba8unorm" in reports[0]
    assert "does not own the surface; submit inside `with surface.access(...)`" in reports[0]
    assert "the surface is closed" in reports[1]


def held_release(wait: float) -> tuple[bool, bool]:
    """The previous owner's work is held behind a fence: the engine's submission comes after it."""
    with pair(64, 16, "rgba8unorm") as (engine, near, texture, far):
        other = far.device
        with other.create_fence() as gate:
            far.acquire(0, 60)
            with far.device._active_call():
                pass
            other.submit(other.record().clear(far, (1, 0, 0, 1)), waits=(gate, 1))
            far.release(1)
            near.acquire(1, 60)
            submitted = threading.Thread(target=engine.clear, args=(texture, (0, 1, 0, 1)))
            submitted.start()
            submitted.join(wait)
            waited = submitted.is_alive()
            gate.signal(1)
            submitted.join(60)
            near.release(2)
            with far.access(2, 0, 60):
                return waited, bool((far.read() == (0, 255, 0, 255)).all())


@pytest.mark.rule("E12")
def test_an_engines_submission_comes_after_held_work_of_the_previous_owner() -> None:
    assert run_with_layer(held_release, 0.2) == (True, True)


def stale_turns(turns: int) -> int:
    """The turns in which the CPU read other pixels than the engine had drawn, or lost its own."""
    stale = 0
    with pair(8, 8, "rgba8unorm") as (engine, near, texture, _):
        for turn in range(turns):
            with near.access():
                engine.clear(texture, (turn % 2, 0, 1, 1))
                stale += not (near.read() == (255 * (turn % 2), 0, 255, 255)).all()
                engine.clear(texture, (0, 1, 0, 1))
                near.write(np.full((8, 8, 4), 7, np.uint8))
            with near.access():
                stale += not (near.read() == 7).all()
    return stale


@pytest.mark.rule("E12")
def test_the_cpu_reads_and_writes_after_the_engines_submissions_of_its_turn() -> None:
    assert run_with_layer(stale_turns, 100) == 0


# ---- without wgpu ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("E10")
def test_a_library_that_no_loader_knows_has_no_device() -> None:
    folder = layer.folder()
    code = f"import ctypes; l = ctypes.CDLL('{folder}/VkLayer_vkshare_engines.so'); l.vks_layer_begin(); " + (
        "print(l.vks_layer_version(), l.vks_layer_thread_device(None) & 255, l.vks_layer_make_offer(None) & 255)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "0"]

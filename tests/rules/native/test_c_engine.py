"""Devices, surfaces with their images, and descriptors, made by the C library alone: Python is the other party."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.access_patterns import threads
from support.c_library import (
    COPY,
    LINEAR,
    LINEAR_IN_DEVICE_MEMORY,
    OPTIMAL,
    RENDER,
    Library,
    buffer_view,
    image_info,
    to_python,
    view,
)
from support.fd_counts import no_fd_left, open_fds

import vkshare as vks
from vkshare import formats

EXTERNAL_SEMAPHORE = "VK_KHR_external_semaphore_fd"


Create = Callable[..., Any]


def tilings(device: vks.Device) -> list[int]:
    return [LINEAR] if device.backend == "cpu" else [LINEAR, OPTIMAL, LINEAR_IN_DEVICE_MEMORY]


@pytest.mark.rule("C4", "E7")
def test_c_and_python_agree_on_the_padding_of_rows(
    device: vks.Device, library: Library, here: Any, create: Create
) -> None:
    alignment = library.ffi.new("uint32_t *")
    assert library.row_alignment(here, alignment) == "OK"
    assert alignment[0] == device.capabilities.row_alignment
    stride = library.ffi.new("size_t *")
    tight = create(alignment[0] // 4, 5, has_tight_rows=True)
    assert library.surface_pixels(tight, library.ffi.new("void **"), stride) == "OK"
    assert stride[0] == alignment[0]
    info = image_info(library, width=17, has_tight_rows=True)
    status = library.surface_create_image(here, info, out := library.ffi.new("vks_surface **"))
    if device.backend == "cpu":
        assert status == "OK"
        library.surface_close(out[0])
        library.surface_unref(out[0])
        return
    assert status == "UNSUPPORTED"
    assert "a row is 68 bytes" in library.error
    assert f"widths that are multiples of {alignment[0] // 4} need no padding" in library.error


# ---- surfaces of C, opened by Python --------------------------------------------------------------------------------


@pytest.mark.rule("C4", "C5", "K1")
def test_a_surface_that_c_makes_is_zero_and_free_under_key_0_and_python_draws_into_it(
    device: vks.Device, library: Library, create: Create, pair: tuple[socket.socket, socket.socket]
) -> None:
    for tiling in tilings(device):
        made = create(33, 17, tiling=tiling)
        with to_python(library, made, pair) as descriptor, device.open_surface(descriptor) as surface:
            assert (descriptor.name, surface.spec.format.name) == ("C's own", "rgba8unorm")
            with surface.access(0, 1):
                assert not surface.read().any()
                device.submit(device.record().clear(surface, (1, 0, 0, 1)))
            assert library.surface_acquire(made, 1, library.deadline()) == "OK", library.error
            if tiling == LINEAR:
                seen = view(library, made, 17, 33)
                assert (seen == (255, 0, 0, 255)).all()
                seen[5, 6] = (1, 2, 3, 4)
            assert library.surface_release(made, 2) == "OK"
            with surface.access(2, 0):
                assert tuple(surface.read()[5, 6]) == ((1, 2, 3, 4) if tiling == LINEAR else (255, 0, 0, 255))


@pytest.mark.rule("C4", "X17")
def test_a_surface_that_python_makes_is_opened_in_c(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    surface = device.create_surface(20, 9, tiling="linear", usage=("copy",))
    with surface.access(0, 1):
        surface.write(np.full((9, 20, 4), 77, np.uint8))
    with surface.export() as descriptor:
        descriptor.send(pair[0])
    got = library.ffi.new("vks_surface_descriptor *")
    assert library.surface_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
    opened = library.make("surface_open_image", "vks_surface *", here, got)
    library.surface_descriptor_close(got)
    assert library.surface_acquire(opened, 1, library.deadline()) == "OK"
    seen = view(library, opened, 9, 20)
    assert (seen == 77).all()
    seen[:] = 78
    assert library.surface_release(opened, 2) == "OK"
    with surface.access(2, 0):
        assert (surface.read() == 78).all()
    library.surface_close(opened)
    library.surface_unref(opened)


@pytest.mark.rule("C4", "E6")
@pytest.mark.parametrize("name", ["d16unorm", "d32float"])
def test_surfaces_of_depth_cross_between_c_and_python(
    device: vks.Device,
    library: Library,
    here: Any,
    create: Create,
    pair: tuple[socket.socket, socket.socket],
    name: str,
) -> None:
    pixel, tiling = formats.get(name), LINEAR if device.backend == "cpu" else OPTIMAL
    made = create(9, 5, tiling=tiling, format=pixel.code, usage=RENDER | COPY)
    with to_python(library, made, pair) as descriptor, device.open_surface(descriptor) as surface:
        colours = device.create_surface(9, 5, usage=("render", "copy"))
        with surface.access(0, 1), colours.access():
            assert (surface.format, surface.read().any()) == (name, False)
            full = [(x, y, 0.6, 1, 1, 1, 1, 1) for x, y in ((-1, -1), (3, -1), (-1, 3))]
            device.submit(device.record().draw_triangles(colours, full, depth=surface, depth_test="greater"))
            assert colours.read().all()
        assert library.surface_acquire(made, 1, library.deadline()) == "OK", library.error
        if device.backend == "vulkan":
            image = library.make("surface_get_vulkan", "vks_vulkan_image", made)
            attachment, copies = 0x20, 0x3
            assert (image.format, image.usage) == (pixel.vk_format, attachment | copies)
        assert library.surface_release(made, 2) == "OK"
        with surface.access(2, 0):
            assert (surface.read() == (39321 if name == "d16unorm" else np.float32(0.6))).all()
    if device.backend == "vulkan":
        info = image_info(library, tiling=LINEAR, format=pixel.code)
        assert library.surface_create_image(here, info, library.ffi.new("vks_surface **")) == "UNSUPPORTED"
        assert "depth is in the driver's own order" in library.error


@pytest.mark.rule("C4", "E6")
def test_a_surface_of_depth_that_python_makes_is_opened_in_c(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    surface = device.create_surface(20, 9, "d16unorm")
    with surface.access(0, 1):
        device.submit(device.record().clear(surface, 0.25))
    with surface.export() as descriptor:
        descriptor.send(pair[0])
    got = library.ffi.new("vks_surface_descriptor *")
    assert library.surface_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
    opened = library.make("surface_open_image", "vks_surface *", here, got)
    library.surface_descriptor_close(got)
    assert library.surface_acquire(opened, 1, library.deadline()) == "OK"
    assert library.surface_release(opened, 2) == "OK"
    with surface.access(2, 0):
        assert (surface.read() == 16384).all()
    library.surface_close(opened)
    library.surface_unref(opened)


@pytest.mark.rule("C4", "E5")
@pytest.mark.parametrize("nbytes", [1, 4096, 100_001])
def test_buffers_go_from_c_to_python_and_back(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket], nbytes: int
) -> None:
    info = library.ffi.new("vks_buffer_info *", {"nbytes": nbytes})
    made = library.make("buffer_create", "vks_surface *", here, info)
    descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", made)
    assert library.surface_descriptor_send(pair[0].fileno(), library.deadline(), descriptor) == "OK", library.error
    library.surface_descriptor_close(descriptor)
    with vks.BufferDescriptor.recv(pair[1], 10) as received, device.open_buffer(received) as buffer:
        assert buffer.nbytes == nbytes
        assert buffer.usage == {"copy", "storage"}
        with buffer.access(0, 1):
            assert not buffer.read().any()
            buffer.write(np.full(nbytes, 3, np.uint8))
        with buffer.export() as again:
            again.send(pair[0])
        assert library.buffer_descriptor_recv(pair[1].fileno(), library.deadline(), descriptor) == "OK", library.error
        opened = library.make("buffer_open", "vks_surface *", here, descriptor)
        library.surface_descriptor_close(descriptor)
        for handle, key in ((made, 1), (opened, 2)):
            assert library.surface_acquire(handle, key, library.deadline()) == "OK", library.error
            if device.adapter.kind != "gpu":
                seen = buffer_view(library, handle, nbytes)
                assert (seen == 3).all()
                seen[0] = 3
            assert library.surface_release(handle, key + 1) == "OK"
        found = library.ffi.new("vks_vulkan_buffer *")
        status = library.buffer_get_vulkan(opened, found)
        assert status == ("UNSUPPORTED" if device.backend == "cpu" else "OK")
        if status == "OK":
            assert found.buffer
            assert found.nbytes == nbytes
            assert found.usage == 0x23  # TRANSFER_SRC, TRANSFER_DST, STORAGE_BUFFER
            assert library.surface_get_vulkan(opened, library.ffi.new("vks_vulkan_image *")) == "UNSUPPORTED"
        with buffer.access(3, 0):
            assert (buffer.read() == 3).all()
        library.surface_close(opened)
        library.surface_unref(opened)
    library.surface_close(made)
    library.surface_unref(made)


@pytest.mark.rule("C4")
def test_a_vulkan_device_of_c_opens_a_surface_of_the_cpu_backend_or_says_why_not(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    with vks.open(backend="cpu") as cpu:
        surface = cpu.create_surface(64, 64, usage=("copy",))
        with surface.access(0, 1):
            surface.write(np.full((64, 64, 4), 90, np.uint8))
        with surface.export() as descriptor:
            descriptor.send(pair[0])
        got = library.ffi.new("vks_surface_descriptor *")
        assert library.surface_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
        before = open_fds()
        out = library.ffi.new("vks_surface **")
        status = library.surface_open_image(here, got, out)
        if "host_pointer" not in device.capabilities.surface_memory:
            assert (status, open_fds()) == ("UNSUPPORTED", before)
            library.surface_descriptor_close(got)
            return
        assert status == "OK", library.error
        assert library.surface_acquire(out[0], 1, library.deadline()) == "OK"
        image = library.make("surface_get_vulkan", "vks_vulkan_image", out[0])
        assert (image.width, image.format) == (64, 37)
        seen = view(library, out[0], 64, 64)
        assert (seen == 90).all()
        seen[:] = 91
        assert library.surface_release(out[0], 2) == "OK"
        with surface.access(2, 0):
            assert (surface.read() == 91).all()
        library.surface_close(out[0])
        library.surface_unref(out[0])
        assert open_fds() == before
        library.surface_descriptor_close(got)


@pytest.mark.rule("C4", "E5")
def test_a_vulkan_device_of_c_opens_a_buffer_of_the_cpu_backend_or_says_why_not(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    with vks.open(backend="cpu") as cpu, cpu.create_buffer(5001) as buffer:
        with buffer.access(0, 1):
            buffer.write(np.full(5001, 90, np.uint8))
        with buffer.export() as descriptor:
            descriptor.send(pair[0])
        got = library.ffi.new("vks_surface_descriptor *")
        assert library.buffer_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
        before = open_fds()
        out = library.ffi.new("vks_surface **")
        status = library.buffer_open(here, got, out)
        if "host_pointer" not in device.capabilities.surface_memory:
            assert (status, open_fds()) == ("UNSUPPORTED", before)
            library.surface_descriptor_close(got)
            return
        assert status == "OK", library.error
        assert library.surface_acquire(out[0], 1, library.deadline()) == "OK"
        assert library.make("buffer_get_vulkan", "vks_vulkan_buffer", out[0]).nbytes == 5001
        seen = buffer_view(library, out[0], 5001)
        assert (seen == 90).all()
        seen[:] = 91
        assert library.surface_release(out[0], 2) == "OK"
        with buffer.access(2, 0):
            assert (buffer.read() == 91).all()
        library.surface_close(out[0])
        library.surface_unref(out[0])
        assert open_fds() == before
        library.surface_descriptor_close(got)


@pytest.mark.rule("C4", "E1")
def test_the_handles_of_a_device_say_what_it_was_made_with(device: vks.Device, library: Library, here: Any) -> None:
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    from vkshare.backends.vulkan.api import VK, ffi

    handles = library.make("device_get_vulkan", "vks_vulkan_device", here)
    info = ffi.cast("VkDeviceCreateInfo *", int(library.ffi.cast("uintptr_t", handles.created_with)))
    names = {ffi.string(info.ppEnabledExtensionNames[i]).decode() for i in range(info.enabledExtensionCount)}
    assert handles.api_version == VK.API_VERSION_1_3
    assert "VK_KHR_external_memory_fd" in names
    assert ("VK_KHR_external_semaphore_fd" in names) >= handles.export_timelines
    older = ffi.cast("VkPhysicalDeviceVulkan12Features *", info.pNext)
    newer = ffi.cast("VkPhysicalDeviceVulkan13Features *", older.pNext)
    assert (older.timelineSemaphore, newer.synchronization2) == (1, 1)
    assert info.pQueueCreateInfos[0].queueFamilyIndex == handles.queue_family


@pytest.mark.rule("C4", "E5")
def test_an_engines_command_buffer_takes_a_turn_on_a_buffer_between_two_turns_of_python(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    from vkshare.backends.vulkan.api import VK, device_functions, ffi, handle, instance_functions, new

    handles = library.make("device_get_vulkan", "vks_vulkan_device", here)
    own = handle("VkDevice", int(library.ffi.cast("uintptr_t", handles.device)))
    instance = handle("VkInstance", int(library.ffi.cast("uintptr_t", handles.instance)))
    vk = device_functions(instance_functions(instance, int(library.ffi.cast("uintptr_t", handles.get))), own)
    queue = handle("VkQueue", int(library.ffi.cast("uintptr_t", handles.queue)))
    pool = vk.make(
        "vkCreateCommandPool", own, new("VkCommandPoolCreateInfo", queueFamilyIndex=handles.queue_family), None
    )
    commands = ffi.new("VkCommandBuffer *")
    vk.vkAllocateCommandBuffers(
        own, new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1), commands
    )
    with device.create_buffer(4096, usage=("copy", "storage")) as buffer, buffer.export() as descriptor:
        descriptor.send(pair[0])
        got = library.ffi.new("vks_surface_descriptor *")
        assert library.buffer_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
        theirs = library.make("buffer_open", "vks_surface *", here, got)
        library.surface_descriptor_close(got)
        with buffer.access(0, 1):
            buffer.write(np.full(4096, 1, np.uint8))
        assert library.surface_acquire(theirs, 1, library.deadline()) == "OK"
        assert library.surface_cpu_access(theirs, library.deadline()) == "OK"  # Python's work has run
        found = library.make("buffer_get_vulkan", "vks_vulkan_buffer", theirs)
        raw = library.ffi.cast("void *", int(ffi.cast("uintptr_t", commands[0])))
        turn = 0, VK.PIPELINE_STAGE_2_ALL_TRANSFER_BIT, VK.ACCESS_2_TRANSFER_WRITE_BIT
        vk.vkBeginCommandBuffer(commands[0], new("VkCommandBufferBeginInfo"))
        assert library.surface_cmd_acquire(theirs, raw, *turn) == "OK", library.error
        vk.vkCmdFillBuffer(commands[0], handle("VkBuffer", found.buffer), 1024, 2048, 0x07070707)
        assert library.surface_cmd_release(theirs, raw, *turn) == "OK", library.error
        vk.vkEndCommandBuffer(commands[0])
        submit = new("VkSubmitInfo2", pCommandBufferInfos=[new("VkCommandBufferSubmitInfo", commandBuffer=commands[0])])
        vk.vkQueueSubmit2(queue, 1, submit, ffi.NULL)
        vk.vkQueueWaitIdle(queue)
        assert library.surface_release(theirs, 2) == "OK"
        with buffer.access(2, 0):
            seen = buffer.read()
            assert (seen[1024:3072] == 7).all()
            assert (seen[:1024] == 1).all()
            assert (seen[3072:] == 1).all()
        library.surface_close(theirs)
        library.surface_unref(theirs)
    vk.vkDestroyCommandPool(own, pool, None)


@pytest.mark.rule("C4")
def test_every_fd_is_closed_and_every_image_destroyed_when_surfaces_and_devices_end(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    for tiling in tilings(device):
        info = image_info(library, width=400, height=400, tiling=tiling)
        for round in range(3):  # a driver may open files of its own in the first
            before = open_fds()
            made = library.make("surface_create_image", "vks_surface *", here, info)
            with to_python(library, made, pair) as descriptor, device.open_surface(descriptor):
                pass
            library.surface_close(made)
            library.surface_unref(made)
            more = {os.readlink(f"/proc/self/fd/{fd}") for fd in open_fds() - before}
            assert not (round and more - {"/dev/nvidia0"}), tiling


@pytest.mark.rule("C4", "X10")
def test_fences_cross_in_both_directions(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    made = library.make("fence_create", "vks_fence *", here, 5)
    descriptor = library.make("fence_export_descriptor", "vks_fence_descriptor", made)
    assert library.fence_descriptor_send(pair[0].fileno(), library.deadline(), descriptor) == "OK"
    library.fence_descriptor_close(descriptor)
    with vks.FenceDescriptor.recv(pair[1], 10) as received, device.open_fence(received) as followed:
        assert (followed.value, received.name) == (5, "C's own")
        assert library.fence_signal(made, 9) == "OK"
        followed.wait(9, 10)
    fence = device.create_fence()
    with fence.export() as exported:
        exported.send(pair[0])
    got = library.ffi.new("vks_fence_descriptor *")
    assert library.fence_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
    follower = library.make("fence_open_descriptor", "vks_fence *", here, got)
    library.fence_descriptor_close(got)
    fence.signal(3)
    assert library.fence_wait(follower, 3, library.deadline()) == "OK"
    assert library.fence_signal(follower, 4) == "READ_ONLY"
    for each in (follower, made):
        library.fence_close(each)
        library.fence_unref(each)


@pytest.mark.rule("C4")
def test_a_device_that_ends_destroys_its_vkdevice_and_the_images_of_open_surfaces(
    device: vks.Device, library: Library, here: Any
) -> None:
    vulkan_of(library, device, here)
    uuid = library.ffi.new("uint8_t[16]", device.capabilities.device_uuid)
    info = library.ffi.new("vks_open_info *", {"device_uuid": uuid})
    before: tuple[set[int], int] = set(), 0
    for round in range(4):  # the first starts threads that the process keeps
        made = library.make("device_open_vulkan", "vks_device *", info)
        surface = library.make("surface_create_image", "vks_surface *", made, image_info(library))
        library.device_shutdown(made)
        assert library.surface_get_vulkan(surface, library.ffi.new("vks_vulkan_image *")) == "CLOSED"
        assert library.device_get_vulkan(made, library.ffi.new("vks_vulkan_device *")) == "CLOSED"
        library.surface_unref(surface)
        library.device_unref(made)
        now = open_fds(), threads()
        assert round < 2 or now <= before
        before = now


@pytest.mark.rule("C4")
def test_a_process_without_file_descriptors_gets_a_status_and_loses_none(
    device: vks.Device, library: Library, here: Any, create: Create
) -> None:
    descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", create(8, 8))
    before = open_fds()
    calls = {
        "create": lambda out: library.surface_create_image(here, image_info(library), out),
        "open": lambda out: library.surface_open_image(here, descriptor, out),
    }

    def tried(call: Callable[[Any], str]) -> str:
        out = library.ffi.new("vks_surface **")
        status = call(out)
        if status == "OK":
            library.surface_close(out[0])
            library.surface_unref(out[0])
        return status

    for name, call in calls.items():
        for room in range(12):
            with no_fd_left(room):
                status = tried(call)
            assert room or status != "OK"
            assert open_fds() == before, f"{name} with {room} free fds: {status}"
        assert tried(call) == "OK", f"{name}: {library.error}"
    library.surface_descriptor_close(descriptor)


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C4")
@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"width": 0}, "the size is 0x8; allowed is 1 to 1048576"),
        ({"height": 1 << 21}, "the size is 8x2097152"),
        ({"format": 99}, "there is no format 99"),
        ({"tiling": 3}, "tiling is 3; allowed is 0 to 2"),
        ({"usage": 16}, "usage is 0x10; allowed are bits of 0xf"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(
    library: Library, here: Any, numbers: dict[str, int], text: str
) -> None:
    info = image_info(library, **numbers)
    assert library.surface_create_image(here, info, library.ffi.new("vks_surface **")) == "BAD_VALUE"
    assert text in library.error


@pytest.mark.rule("C4", "X16")
def test_a_descriptor_that_this_driver_would_not_export_is_refused(
    device: vks.Device, library: Library, here: Any, create: Create
) -> None:
    descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", create(64, 64))
    before = open_fds()
    descriptor.body[20] ^= 1  # memory_size
    descriptor.body[28] ^= 64  # memory_offset
    assert library.surface_open_image(here, descriptor, library.ffi.new("vks_surface **")) == "BAD_PAGE"
    descriptor.body[16] = 0
    if device.backend == "vulkan":
        descriptor.body[44] ^= 1  # device_uuid
        assert library.surface_open_image(here, descriptor, library.ffi.new("vks_surface **")) == "FOREIGN_DEVICE"
    assert open_fds() == before
    library.surface_descriptor_close(descriptor)


@pytest.mark.rule("C4")
def test_a_device_of_the_cpu_backend_has_no_vulkan_objects(
    device: vks.Device, library: Library, here: Any, create: Create
) -> None:
    made, image = create(8, 8), library.ffi.new("vks_vulkan_image *")
    if device.backend == "vulkan":
        assert library.surface_get_vulkan(made, image) == "OK"
        assert (image.image != 0, image.format, image.width, image.height) == (True, 37, 8, 8)
        return
    assert library.surface_get_vulkan(made, image) == "UNSUPPORTED"
    assert library.surface_cmd_acquire(made, library.ffi.cast("void *", 1), 1, 1, 1) == "UNSUPPORTED"
    assert library.device_get_vulkan(here, library.ffi.new("vks_vulkan_device *")) == "UNSUPPORTED"
    assert "vks_device_open_vulkan()" in library.error


@pytest.mark.rule("C4", "X14")
def test_a_send_to_a_full_or_closed_socket_ends_with_a_status(
    library: Library, create: Create, pair: tuple[socket.socket, socket.socket]
) -> None:
    descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", create(8, 8))
    fd = pair[0].fileno()
    pair[0].setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            pair[0].send(bytes(1 << 16))
    assert library.surface_descriptor_send(fd, library.deadline(0.01), descriptor) == "TIMEOUT"
    pair[1].close()
    assert library.surface_descriptor_send(fd, library.deadline(), descriptor) == "OS_ERROR"
    assert library.surface_descriptor_send(os.dup(0), library.deadline(), descriptor) == "OS_ERROR"
    library.surface_descriptor_close(descriptor)


# ---- adapters, requirements, the trial ------------------------------------------------------------------------------


def vulkan_of(library: Library, device: vks.Device, here: Any) -> Any:
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    return library.make("device_get_vulkan", "vks_vulkan_device", here)


@pytest.mark.rule("C4")
def test_the_adapters_are_those_of_python_best_first(device: vks.Device, library: Library, here: Any) -> None:
    vulkan_of(library, device, here)
    found, count = library.ffi.new("vks_adapter[8]"), library.ffi.new("uint32_t *")
    assert library.adapters(found, 8, count) == "OK"
    names = [library.ffi.string(adapter.name).decode() for adapter in found[0 : count[0]]]
    ours = [adapter for adapter in vks.adapters() if adapter.backend == "vulkan"]
    assert names == [adapter.name for adapter in sorted(ours, key=lambda adapter: -adapter.rank)]
    assert bytes(found[0].device_uuid) == ours[0].uuid or len(ours) > 1
    info = library.ffi.new("vks_open_info *", {"index": count[0]})
    assert library.device_open_vulkan(info, library.ffi.new("vks_device **")) == "UNSUPPORTED"
    assert f"there is no adapter {count[0]} here" in library.error


@pytest.mark.rule("C5")
def test_the_trial_of_timelines_agrees_with_pythons(device: vks.Device, library: Library, here: Any) -> None:
    vulkan = vulkan_of(library, device, here)
    status = library.vulkan_try_timelines(vulkan.get, vulkan.instance, vulkan.physical_device)
    assert status == ("OK" if device.capabilities.export_timelines else "UNSUPPORTED"), library.error
    assert vulkan.export_timelines == device.capabilities.export_timelines
    assert status == "OK" or "timeline semaphore" in library.error or EXTERNAL_SEMAPHORE in library.error


@pytest.mark.rule("C4")
def test_an_engine_learns_what_to_enable_and_a_device_without_it_is_refused(
    device: vks.Device, library: Library, here: Any
) -> None:
    vulkan = vulkan_of(library, device, here)
    needs = library.ffi.new("vks_requirements *")
    assert library.vulkan_requirements(vulkan.get, vulkan.instance, vulkan.physical_device, needs) == "OK"
    extensions = [library.ffi.string(name).decode() for name in needs.extensions[0 : needs.n_extensions]]
    wanted = vks.vulkan_requirements()
    assert tuple(extensions[: needs.n_needed]) == wanted.device_extensions
    assert set(extensions[needs.n_needed :]) <= set(wanted.optional_device_extensions)
    features = {library.ffi.string(name).decode() for name in needs.features[0 : needs.n_needed_features]}
    assert features <= set(wanted.features)
    created_with = library.ffi.new("uint64_t[9]")  # a VkDeviceCreateInfo without extensions and features
    info = library.ffi.new(
        "vks_adopt_info *",
        {name: getattr(vulkan, name) for name in ("get", "instance", "physical_device", "device", "queue")}
        | {"created_with": created_with},
    )
    assert library.device_adopt_vulkan(info, library.ffi.new("vks_device **")) == "UNSUPPORTED"
    assert "made without VK_KHR_external_memory_fd" in library.error
    info.created_with = library.ffi.NULL
    assert library.device_adopt_vulkan(info, library.ffi.new("vks_device **")) == "BAD_VALUE"

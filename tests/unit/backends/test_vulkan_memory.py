"""Images and their memory: creation, export, and the checks before an import."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.backends.vulkan import imports
from vkshare.errors import ClosedError, DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.formats import get
from vkshare.util import fd_ops

pytestmark = [pytest.mark.driver_dependent, pytest.mark.wheel]

USAGE = frozenset({"render", "sample", "copy"})
TILINGS = ("linear", "optimal")


def spec_of(tiling: str = "optimal", width: int = 40, height: int = 24, **changes: Any) -> ImageSpec:
    return dataclasses.replace(ImageSpec(width, height, get("rgba8unorm"), tiling, USAGE), **changes)


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def has(backend: Any, capability: str) -> None:
    can = backend.adapter.capabilities
    if capability not in can.tilings | can.surface_memory:
        pytest.skip(f"no {capability}: {can.reasons[capability]}")


SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def memfd(size: int, seals: int = SEALS) -> int:
    fd = os.memfd_create("vkshare:test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@pytest.mark.parametrize("tiling", TILINGS)
def test_a_new_image_is_zeros_and_says_what_it_is(backend: Any, tiling: str) -> None:
    has(backend, tiling)
    image = backend.create_image(spec_of(tiling))
    assert image.image
    assert image.image_view
    assert len(set(image.ownership_commands)) == 2 * len(image.context.queue_families)
    assert (image.stride >= 160) == (tiling == "linear")
    if tiling == "optimal":
        assert image.pixels() is None
    elif backend.adapter.capabilities.host_visible:
        pixels = image.pixels()
        assert len(pixels) >= image.stride * 23 + 160
        assert not any(pixels[: image.stride * 23 + 160])
        pixels[0] = 9
        assert image.pixels()[0] == 9
    image.destroy()
    image.destroy()
    assert (image.image, image.image_view, image.pixels()) == (0, 0, None)


@pytest.mark.rule("X12", "X16")
@pytest.mark.parametrize("tiling", TILINGS)
def test_an_export_says_what_an_import_needs_and_its_fd_is_cloexec(backend: Any, tiling: str) -> None:
    has(backend, tiling)
    image = backend.create_image(spec_of(tiling))
    memory = image.export()
    assert fcntl.fcntl(memory.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    assert memory.kind == "opaque_fd"
    assert (memory.stride, memory.offset) == (image.stride, 0)
    assert memory.size >= 40 * 24 * 4
    assert memory.device_uuid == backend.adapter.capabilities.device_uuid
    os.close(memory.fd)
    image.destroy()


FORGED = {
    "too large": ({"size": 1}, DescriptorError, "size is"),
    "too small": ({"size": -1}, DescriptorError, "size is"),
    "shifted": ({"offset": 4096}, DescriptorError, "offset is 4096, must be 0"),
    "of another stride": ({"stride": 64}, DescriptorError, "stride is"),
    "of the other dedication": ({"dedicated": None}, DescriptorError, "dedicated is"),
    "of an unknown kind": ({"kind": "dma_buf"}, DescriptorError, "dma_buf"),
    "of another device": ({"device_uuid": b"\1" * 16}, DeviceMismatchError, "01010101"),
    "of another driver": ({"driver_uuid": b"\2" * 16}, DeviceMismatchError, "driver 0202"),
}


@pytest.mark.rule("X16", "X17", "X18")
@pytest.mark.parametrize("tiling", TILINGS)
@pytest.mark.parametrize("forgery", FORGED)
def test_memory_that_is_not_as_declared_is_refused_and_its_fd_closed(
    open_backend: Callable[[], Any], forgery: str, tiling: str
) -> None:
    ours, theirs = open_backend(), open_backend()
    has(ours, tiling)
    image = ours.create_image(spec_of(tiling))
    before = open_fds()
    memory = image.export()
    given: Any = FORGED[forgery]
    changes, error, text = given
    for field, change in changes.items():
        old = getattr(memory, field)
        new = not old if change is None else old + change if isinstance(change, int) else change
        memory = dataclasses.replace(memory, **{field: new})
    with pytest.raises(error, match=text):
        theirs.open_image(image.spec, memory)
    assert open_fds() == before
    image.destroy()


@pytest.mark.rule("X17")
def test_a_mismatch_names_both_sides(backend: Any) -> None:
    image = backend.create_image(spec_of())
    memory = dataclasses.replace(image.export(), device_uuid=bytes(range(16)))
    with pytest.raises(DeviceMismatchError) as raised:
        backend.open_image(image.spec, memory)
    for there in (bytes(range(16)), backend.adapter.capabilities.device_uuid):
        assert str(UUID(bytes=there)) in str(raised.value)
    image.destroy()


@pytest.mark.rule("X16", "X18")
@pytest.mark.parametrize(
    "declared", [{"width": 400}, {"height": 4000}, {"height": 2**20}, {"format": get("rgba32float")}]
)
def test_memory_of_one_image_does_not_open_as_a_larger_one(backend: Any, declared: dict[str, Any]) -> None:
    image = backend.create_image(spec_of())
    before = open_fds()
    with pytest.raises(DescriptorError):
        backend.open_image(spec_of(**declared), image.export())
    assert open_fds() == before
    image.destroy()


@pytest.mark.rule("X16", "X18")
@pytest.mark.parametrize("what", ["closed", "pipe", "small memfd", "large memfd"])
def test_an_fd_that_is_no_memory_of_this_driver_is_refused_and_closed(backend: Any, what: str) -> None:
    image = backend.create_image(spec_of())
    true = image.export()
    file_size = os.fstat(true.fd).st_size
    os.close(true.fd)
    before = open_fds()
    if what == "closed":
        fd = 1_000_000
    elif what == "pipe":
        fd, other = os.pipe()
        os.close(other)
    elif what == "small memfd":
        fd = memfd(512)
    else:
        fd = memfd(file_size + mmap.PAGESIZE)
    with pytest.raises(DescriptorError):
        backend.open_image(image.spec, dataclasses.replace(true, fd=fd))
    assert open_fds() == before
    image.destroy()


@pytest.mark.rule("X15", "X16")
def test_memory_that_its_sender_could_still_cut_off_is_refused(backend: Any) -> None:
    if not backend.context.physical.is_software:
        pytest.skip("of software drivers: a GPU's memory is no file")
    image = backend.create_image(spec_of())
    true = image.export()
    file_size = os.fstat(true.fd).st_size
    os.close(true.fd)
    for seals in (0, SEALS & ~fcntl.F_SEAL_SHRINK, SEALS & ~fcntl.F_SEAL_SEAL):
        with pytest.raises(DescriptorError, match="not sealed against shrinking"):
            backend.open_image(image.spec, dataclasses.replace(true, fd=memfd(file_size, seals)))
    image.destroy()


@pytest.mark.rule("X18")
@pytest.mark.parametrize("good", [True, False], ids=["good", "bad"])
def test_a_thousand_imports_leave_the_fd_count_as_it_was(open_backend: Callable[[], Any], good: bool) -> None:
    ours, theirs = open_backend(), open_backend()
    image = ours.create_image(spec_of(width=8, height=8))
    before = open_fds()
    for round_ in range(1000):
        memory = image.export()
        if good:
            theirs.open_image(image.spec, memory).destroy()
            continue
        forged = dataclasses.replace(
            memory, **({"size": memory.size + 1} if round_ % 2 else {"driver_uuid": bytes(16)[:15] + b"x"})
        )
        with pytest.raises((DescriptorError, DeviceMismatchError)):
            theirs.open_image(image.spec, forged)
    assert open_fds() == before
    image.destroy()


# ---- memory of the CPU backend ---------------------------------------------------------------------------------------


def cpu_memory(spec: ImageSpec, *, size: int = 0, seals: int = SEALS, **changes: Any) -> MemoryHandle:
    stride, right_size = host_memory.layout(spec)
    size = size or right_size
    handle = MemoryHandle("memfd", memfd(size, seals), size, 0, stride, False, b"", b"")
    return dataclasses.replace(handle, **changes)


@pytest.mark.rule("X22")
def test_a_cpu_surface_opens_without_a_copy_where_that_was_proven(backend: Any) -> None:
    spec = spec_of("linear", width=64, height=24)
    memory = cpu_memory(spec)
    with mmap.mmap(memory.fd, memory.size) as pages:
        if "host_pointer" not in backend.adapter.capabilities.surface_memory:
            with pytest.raises(UnsupportedError, match=r"read\(\) and write\(\)"):
                backend.open_image(spec, memory)
            return
        image = backend.open_image(spec, memory)
        pages[7 * image.stride] = 77
        assert image.pixels()[7 * image.stride] == 77
        image.destroy()


@pytest.mark.rule("X15", "X18")
@pytest.mark.parametrize(
    "changes",
    [
        {"seals": 0},
        {"seals": SEALS & ~fcntl.F_SEAL_SHRINK},
        {"size": 4096},
        {"size": 1 << 30},
        {"stride": 1 << 30},
        {"offset": 64},
    ],
    ids=["unsealed", "may shrink", "too small", "too large", "too wide", "shifted"],
)
def test_a_forged_cpu_surface_is_refused_and_its_fd_closed(backend: Any, changes: dict[str, int]) -> None:
    has(backend, "host_pointer")
    spec = spec_of("linear", width=64, height=24)
    before = open_fds()
    with pytest.raises((DescriptorError, UnsupportedError)):
        backend.open_image(spec, cpu_memory(spec, **changes))
    assert open_fds() == before


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_size_beyond_the_device_is_a_value_error_that_names_the_limit(backend: Any) -> None:
    with pytest.raises(ValueError, match=r"1000000x1; .* allows 1x1 to"):
        backend.create_image(spec_of(width=1_000_000, height=1))


def test_a_usage_that_the_format_lacks_is_unsupported_with_a_hint(backend: Any) -> None:
    with pytest.raises(UnsupportedError, match="storage") as raised:
        backend.create_image(spec_of(format=get("rgba8unorm-srgb"), usage=USAGE | {"storage"}))
    assert "storage" in raised.value.hint


def test_a_closed_backend_makes_nothing(backend: Any) -> None:
    backend.close()
    with pytest.raises(ClosedError):
        backend.create_image(spec_of())
    with pytest.raises(ClosedError):
        backend.compile(None, [])
    backend.close()


def test_a_backend_destroys_what_is_left_when_it_closes_and_destroying_it_again_is_fine(backend: Any) -> None:
    before = open_fds()
    image = backend.create_image(spec_of())
    other = backend.open_image(image.spec, image.export())
    stage = backend.stage(40 * 24 * 4, image, upload=False)
    backend.close()  # the validation layer tells of anything that is left
    assert (image.image, other.image, stage.command_buffer) == (0, 0, 0)
    assert open_fds() <= before
    stage.destroy()
    other.destroy()
    image.destroy()
    assert image.pixels() is None


def test_a_destroyed_image_is_never_recorded(backend: Any) -> None:
    image = backend.create_image(spec_of())
    image.destroy()
    with pytest.raises(ClosedError):
        backend.stage(40 * 24 * 4, image, upload=False)


def test_a_close_that_ctrl_c_interrupted_goes_on_where_it_was(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    image = backend.create_image(spec_of())
    stage = backend.stage(40 * 24 * 4, image, upload=False)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stage._objects, "_then", interrupt)
        with pytest.raises(KeyboardInterrupt):
            backend.close()
    assert not backend.context.is_closed
    backend.close()
    assert backend.context.is_closed
    assert (image.image, stage.command_buffer) == (0, 0)


@pytest.mark.rule("X18")
def test_an_export_that_the_driver_answers_with_no_fd_is_unsupported(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vk = backend.context.vk
    make = vk.make

    def without_fd(name: str, *arguments: Any) -> Any:
        return -1 if name == "vkGetMemoryFdKHR" else make(name, *arguments)

    before = open_fds()
    with monkeypatch.context() as patch:
        patch.setattr(vk, "make", without_fd, raising=False)
        with pytest.raises(UnsupportedError, match="no fd"):
            backend.create_image(spec_of()).export()
    assert open_fds() == before


@pytest.mark.rule("X12", "X18")
@pytest.mark.parametrize("tiling", TILINGS)
def test_an_opened_image_exports_the_memory_that_it_was_opened_from(
    open_backend: Callable[[], Any], tiling: str
) -> None:
    ours, theirs = open_backend(), open_backend()
    has(ours, tiling)
    before = open_fds()
    image = ours.create_image(spec_of(tiling))
    true = image.export()
    opened = theirs.open_image(image.spec, dataclasses.replace(true, fd=os.dup(true.fd)))
    again = opened.export()
    assert dataclasses.replace(again, fd=true.fd) == true
    assert os.path.sameopenfile(again.fd, true.fd) or os.fstat(again.fd).st_ino == os.fstat(true.fd).st_ino
    assert fcntl.fcntl(again.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    opened.destroy()
    image.destroy()
    os.close(true.fd)
    os.close(again.fd)
    assert open_fds() == before


def test_an_import_in_a_process_without_a_free_fd_blames_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What GPUs' drivers import; a software driver's memory takes another way."""
    memory = MemoryHandle("opaque_fd", 5, 4096, 0, 64, False, b"", b"")

    def fail(code: int) -> None:
        def duplicate(fd: int) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(fd_ops, "duplicate", duplicate)

    image: Any = None
    fail(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        imports.import_fd(image, memory)
    fail(errno.EBADF)
    with pytest.raises(DescriptorError, match="the memory's fd 5 cannot be used: Bad file descriptor"):
        imports.import_fd(image, memory)

"""libvkshare.so itself, called through cffi as a C program would call it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import vkshare as vks
from vkshare.util import library

_DECLARATIONS = """
typedef struct vks_device vks_device; typedef struct vks_surface vks_surface; typedef struct vks_fence vks_fence;
typedef struct vks_error { int status; int64_t code; char text[232]; } vks_error;
const vks_error *vks_last_error(void);
uint64_t vks_now(void);
void vks_set_interrupt_interval(uint64_t);
typedef struct { const char *name; uint32_t held_limit, raster_threads; void *vulkan; } vks_device_info;
int vks_device_create(const vks_device_info *, vks_device **);
void vks_device_shutdown(vks_device *);
void vks_device_unref(vks_device *);
typedef struct { char name[256]; uint8_t device_uuid[16], driver_uuid[16]; uint32_t api_version; bool is_software; }
    vks_adapter;
int vks_adapters(vks_adapter *, uint32_t, uint32_t *);
typedef struct { const char *name; uint32_t held_limit; const uint8_t *device_uuid, *driver_uuid; uint32_t index; }
    vks_open_info;
int vks_device_open_vulkan(const vks_open_info *, vks_device **);
typedef struct { void *get, *instance, *physical_device, *device, *queue; uint32_t queue_family;
    uint8_t device_uuid[16], driver_uuid[16]; bool export_timelines; uint32_t api_version; const void *created_with; }
    vks_vulkan_device;
int vks_device_get_vulkan(vks_device *, vks_vulkan_device *);
typedef struct { uint32_t api_version; const char *extensions[8]; uint32_t n_extensions, n_needed;
    const char *features[4]; uint32_t n_features, n_needed_features; } vks_requirements;
int vks_vulkan_requirements(void *, void *, void *, vks_requirements *);
int vks_vulkan_try_timelines(void *, void *, void *);
uint32_t vks_vulkan_format(uint32_t);
typedef struct { const char *name; uint32_t held_limit; void *get, *instance, *physical_device, *device, *queue;
    uint32_t queue_family; const void *created_with; void *lock_queue, *unlock_queue, *lock_user; } vks_adopt_info;
int vks_device_adopt_vulkan(const vks_adopt_info *, vks_device **);
typedef struct { uint8_t primaries, transfer, matrix, range, siting; } vks_color;
typedef struct { uint32_t width, height, format, tiling, usage; bool discard_unowned, has_tight_rows; vks_color color; }
    vks_image_info;
int vks_surface_get_color(const vks_surface *, vks_color *);
typedef struct { uint32_t width, height, format; void *pixels; size_t stride; } vks_plane;
int vks_surface_get_plane(vks_surface *, uint32_t, vks_plane *);
typedef struct { vks_image_info image; uint64_t size, offset, stride; bool is_dedicated;
    const uint8_t *device_uuid, *driver_uuid; } vks_import_info;
int vks_surface_import_memory(vks_device *, const vks_import_info *, int, vks_surface **);
typedef struct { vks_image_info image; void *pixels; size_t stride, size; void (*on_close)(void *); void *user; }
    vks_array_info;
int vks_surface_share_array(vks_device *, const vks_array_info *, vks_surface **);
typedef struct { vks_image_info image; void *handle; int layout; void *memory; void (*on_close)(void *); void *user; }
    vks_adopt_image_info;
int vks_surface_adopt_image(vks_device *, const vks_adopt_image_info *, vks_surface **);
int vks_row_alignment(vks_device *, uint32_t *);
typedef struct { uint8_t body[120]; int memory_fd, page_fd, semaphore_fd; } vks_surface_descriptor;
typedef struct { uint8_t body[56]; int page_fd, semaphore_fd; } vks_fence_descriptor;
int vks_surface_create_image(vks_device *, const vks_image_info *, vks_surface **);
int vks_surface_open_image(vks_device *, const vks_surface_descriptor *, vks_surface **);
int vks_surface_export_descriptor(vks_surface *, vks_surface_descriptor *);
int vks_surface_descriptor_send(int, uint64_t, const vks_surface_descriptor *);
int vks_surface_descriptor_recv(int, uint64_t, vks_surface_descriptor *);
void vks_surface_descriptor_close(vks_surface_descriptor *);
typedef struct { uint64_t nbytes; uint32_t usage; } vks_buffer_info;
int vks_buffer_create(vks_device *, const vks_buffer_info *, vks_surface **);
int vks_buffer_open(vks_device *, const vks_surface_descriptor *, vks_surface **);
int vks_buffer_descriptor_recv(int, uint64_t, vks_surface_descriptor *);
typedef struct { uint64_t buffer; uint64_t memory; uint64_t nbytes; uint32_t usage; } vks_vulkan_buffer;
int vks_buffer_get_vulkan(vks_surface *, vks_vulkan_buffer *);
typedef struct vks_queue vks_queue;
typedef struct { uint32_t width, height, format, count, metadata_size; uint64_t network;
    bool single_threaded, early, full; vks_color color; } vks_queue_info;
typedef struct { uint32_t n_queues, n_surfaces; int page_fds[2]; vks_surface_descriptor surfaces[64]; }
    vks_queue_descriptor;
int vks_queue_page_make(const vks_queue_info *, int *);
int vks_queue_page_read(int, vks_queue_info *);
int vks_surface_join(vks_surface *, uint64_t, uint32_t);
int vks_queue_open(vks_device *, int, int, vks_surface *const *, uint32_t, vks_queue **);
int vks_queue_enqueue(vks_queue *, vks_surface *, const void *, size_t, int, uint64_t, bool *);
int vks_queue_dequeue(vks_queue *, uint64_t, uint32_t *, void *, size_t *);
void vks_queue_close(vks_queue *);
void vks_queue_unref(vks_queue *);
int vks_queue_descriptor_send(int, uint64_t, const vks_queue_descriptor *);
int vks_queue_descriptor_recv(int, uint64_t, vks_queue_descriptor *);
void vks_queue_descriptor_close(vks_queue_descriptor *);
int vks_queue_export_descriptor(const int *, uint32_t, vks_surface *const *, uint32_t, vks_queue_descriptor *);
int vks_queue_open_surfaces(vks_device *, const vks_queue_descriptor *, vks_surface **);
typedef struct vks_mirror vks_mirror;
typedef struct { uint32_t x, y, width, height; } vks_box;
typedef struct { uint64_t pulls, pushes, pulled_bytes, pushed_bytes; } vks_mirror_statistics;
int vks_device_mirror(vks_device *, const vks_surface_descriptor *, vks_mirror **);
vks_surface *vks_mirror_surface(const vks_mirror *);
vks_surface *vks_mirror_party(const vks_mirror *);
int vks_mirror_acquire(vks_mirror *, uint64_t, uint64_t);
int vks_mirror_recover(vks_mirror *, uint64_t);
int vks_mirror_release(vks_mirror *, uint64_t, const vks_box *, uint64_t);
void vks_mirror_get_statistics(const vks_mirror *, vks_mirror_statistics *);
void vks_mirror_close(vks_mirror *);
void vks_mirror_unref(vks_mirror *);
int vks_surface_pixels(vks_surface *, void **, size_t *);
int vks_surface_acquire(vks_surface *, uint64_t, uint64_t);
int vks_surface_cpu_access(vks_surface *, uint64_t);
int vks_surface_release(vks_surface *, uint64_t);
int vks_surface_sync(vks_surface *, uint64_t, void *, void *);
uint64_t vks_surface_close(vks_surface *);
void vks_surface_unref(vks_surface *);
typedef struct { uint64_t image; uint64_t memory; uint32_t format, width, height, tiling, usage; uint64_t offset; }
    vks_vulkan_image;
int vks_surface_get_vulkan(vks_surface *, vks_vulkan_image *);
int vks_surface_get_vulkan_plane(vks_surface *, uint32_t, vks_vulkan_image *);
int vks_surface_cmd_acquire(vks_surface *, void *, uint32_t, uint64_t, uint64_t);
int vks_surface_cmd_release(vks_surface *, void *, uint32_t, uint64_t, uint64_t);
typedef struct vks_swapchain vks_swapchain;
typedef struct { uint64_t surface; uint32_t width, height, format, present_mode, image_count, frames_in_flight;
    bool sizes_itself; } vks_window_info;
typedef struct { uint32_t index, width, height; uint64_t generation; } vks_frame;
typedef struct { uint64_t image, view; uint32_t width, height; } vks_frame_image;
int vks_swapchain_open(vks_device *, const vks_window_info *, vks_swapchain **);
int vks_swapchain_acquire(vks_swapchain *, uint64_t, vks_frame *);
int vks_swapchain_image(vks_swapchain *, uint32_t, uint64_t, vks_frame_image *);
int vks_swapchain_surface(vks_swapchain *, const vks_frame *, vks_surface **);
int vks_swapchain_take_semaphores(vks_swapchain *, const vks_frame *, uint64_t *, uint64_t *);
int vks_swapchain_present(vks_swapchain *, const vks_frame *, uint64_t);
int vks_swapchain_drop(vks_swapchain *, const vks_frame *);
int vks_swapchain_resize(vks_swapchain *, uint32_t, uint32_t);
void vks_swapchain_close(vks_swapchain *);
void vks_swapchain_unref(vks_swapchain *);
typedef struct { uint64_t numerator; uint32_t denominator; } vks_interval;
typedef struct vks_display vks_display;
int vks_display_create(vks_interval, bool, vks_display **);
int vks_display_set_interval(vks_display *, vks_interval, bool);
void vks_display_shutdown(vks_display *);
void vks_display_unref(vks_display *);
bool vks_surface_is_owned(vks_surface *);
int vks_fence_create(vks_device *, uint64_t, vks_fence **);
int vks_fence_signal(vks_fence *, uint64_t);
int vks_fence_wait(vks_fence *, uint64_t, uint64_t);
void vks_fence_close(vks_fence *);
void vks_fence_unref(vks_fence *);
int vks_fence_export_descriptor(vks_fence *, vks_fence_descriptor *);
int vks_fence_open_descriptor(vks_device *, const vks_fence_descriptor *, vks_fence **);
int vks_fence_descriptor_send(int, uint64_t, const vks_fence_descriptor *);
int vks_fence_descriptor_recv(int, uint64_t, vks_fence_descriptor *);
void vks_fence_descriptor_close(vks_fence_descriptor *);
"""

STATUSES = (
    "OK", "TIMEOUT", "INTERRUPTED", "ABANDONED", "NOT_OWNER", "ALREADY_OWNER", "NOT_ABANDONED", "CLOSED",
    "DEVICE_LOST", "FORKED", "READ_ONLY", "BAD_VALUE", "FOREIGN_DEVICE", "FULL", "BAD_PAGE", "OS_ERROR",
    "VULKAN_ERROR", "UNSUPPORTED", "NO_MEMORY", "BAD_CALL",
)  # fmt: skip
LINEAR, OPTIMAL, LINEAR_IN_DEVICE_MEMORY = 0, 1, 2
RGBA8 = 3
D32_FLOAT = 17
RENDER, COPY = 1, 4  # usage: SwiftShader has no linear images to render to
SECOND = 1_000_000_000


class Library:
    """The functions by their names without vks_; each returns the name of its status."""

    def __init__(self) -> None:
        from cffi import FFI  # of the package vulkan

        self.ffi = FFI()
        self.ffi.cdef(_DECLARATIONS)
        path = next((Path(library.get_include()).parent / "lib").glob("libvkshare.so.?"))
        self._core: Any = self.ffi.dlopen(str(path))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._core, f"vks_{name}")
        if self.ffi.typeof(call).result.kind != "primitive" or self.ffi.typeof(call).result.cname != "int":
            return call

        def status(*arguments: Any) -> str:
            while (code := STATUSES[call(*arguments)]) == "INTERRUPTED":  # a long wait comes back in between
                pass
            return code

        return status

    @property
    def error(self) -> str:
        """The text of this thread's last error."""
        return bytes(self.ffi.string(self._core.vks_last_error().text)).decode()

    def deadline(self, seconds: float = 10) -> int:
        return int(self._core.vks_now() + seconds * SECOND)

    def once(self, name: str, *arguments: Any) -> str:
        """Return the status of one call, INTERRUPTED too."""
        return STATUSES[getattr(self._core, f"vks_{name}")(*arguments)]

    def make(self, name: str, kind: str, *arguments: Any) -> Any:
        """Return what vks_NAME(..., KIND *) makes."""
        out = self.ffi.new(f"{kind} *")
        status = getattr(self, name)(*arguments, out)
        assert status == "OK", f"vks_{name}: {status}, {self.error}"
        return out[0] if self.ffi.typeof(out[0]).kind == "pointer" else out


def image_info(library: Library, **numbers: Any) -> Any:
    usual = {"width": 8, "height": 8, "format": RGBA8, "usage": COPY}
    return library.ffi.new("vks_image_info *", usual | numbers)


def to_python(library: Library, surface: Any, pair: tuple[socket.socket, socket.socket]) -> vks.SurfaceDescriptor:
    """The descriptor that C sends of a surface, received by Python."""
    descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", surface)
    assert library.surface_descriptor_send(pair[0].fileno(), library.deadline(), descriptor) == "OK", library.error
    library.surface_descriptor_close(descriptor)
    return vks.SurfaceDescriptor.recv(pair[1], 10)


def view(library: Library, surface: Any, height: int, width: int) -> np.ndarray:
    """The pixels that C sees; the surface is owned."""
    pixels, stride = library.ffi.new("void **"), library.ffi.new("size_t *")
    assert library.surface_cpu_access(surface, library.deadline()) == "OK", library.error
    assert library.surface_pixels(surface, pixels, stride) == "OK", library.error
    rows = np.frombuffer(library.ffi.buffer(pixels[0], stride[0] * height), np.uint8).reshape(height, stride[0])
    return rows[:, : 4 * width].reshape(height, width, 4)


def buffer_view(library: Library, buffer: Any, nbytes: int) -> np.ndarray:
    """The bytes that C sees; the buffer is owned."""
    pixels, stride = library.ffi.new("void **"), library.ffi.new("size_t *")
    assert library.surface_cpu_access(buffer, library.deadline()) == "OK", library.error
    assert library.surface_pixels(buffer, pixels, stride) == "OK", library.error
    return np.frombuffer(library.ffi.buffer(pixels[0], nbytes), np.uint8)

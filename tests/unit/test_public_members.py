"""The public members of the public classes: a name of the package's own begins with an underscore."""

from __future__ import annotations

import pytest

import vkshare

pytestmark = pytest.mark.no_driver

MEMBERS = {
    "Adapter": "backend capabilities driver host index kind name rank uuid",
    "Buffer": (
        "access acquire acquire_async acquire_fd buffer close close_acquire_fd device export generation is_closed "
        "is_host_visible is_owned is_read_only mutex nbytes read recover release shape statistics sync usage write"
    ),
    "BufferDescriptor": "close duplicate fd_count from_bytes is_closed memory_fd name recv send spec to_bytes",
    "BufferView": "array buffer dtype nbytes shape strides surface writable",
    "Capabilities": (
        "device_uuid driver_uuid export_timelines formats host_visible max_dimension max_timeline_difference reasons "
        "row_alignment subpixel_bits surface_memory tilings"
    ),
    "Color": "codes matrix primaries range siting transfer",
    "CommandList": "blit clear close composite copy device draw_triangles fill_rect is_closed",
    "Consumer": (
        "close dequeue dequeue_async dequeue_latest dequeue_latest_async device fileno frame is_closed metadata_size "
        "recover statistics surfaces"
    ),
    "Device": (
        "adapter adopt_fence adopt_image backend capabilities close create_buffer create_fence create_surface "
        "create_swapchain from_handles handles import_memory is_closed is_lost mirror name open_buffer open_fence "
        "open_surface record share_array statistics submit wait_idle"
    ),
    "Fence": (
        "close device event_fd export handle is_closed is_done is_follower is_native queued_value signal statistics "
        "value wait wait_async"
    ),
    "FenceDescriptor": "close duplicate fd_count from_bytes is_closed name recv send to_bytes uuids",
    "Format": (
        "bytes_per_pixel channels check_size chroma code dtype is_depth is_integer is_planar is_srgb name nbytes "
        "numpy_dtype plane_names plane_size planes vk_format"
    ),
    "Frame": "acquired close generation height index is_closed is_hidden rendered swapchain view width",
    "Headless": "height width",
    "KeyedMutex": "next_key statistics",
    "PlaneView": "array dtype format shape strides surface writable",
    "Producer": "close device enqueue flush is_closed metadata_size recover statistics surfaces",
    "Publication": "close events is_closed kind name statistics",
    "Published": "adapter adapter_name backend color format height key kind name pid rate wants_input width",
    "QueueDescriptor": (
        "close duplicate fd_count from_bytes is_closed queue_count recv send spec surface_count to_bytes"
    ),
    "QueueFrame": "metadata surface view",
    "Receiver": "close device fileno frame frame_async is_closed publish statistics",
    "Sender": "close device frame frame_async is_closed publish statistics",
    "Submission": "device is_done is_held serial wait",
    "Surface": (
        "access acquire acquire_async acquire_fd close close_acquire_fd color device discards export format "
        "generation height image image_view is_closed is_host_visible is_owned is_read_only mutex publish read "
        "read_planes recover release shape spec statistics stride sync tiling to_linear usage width write write_planes"
    ),
    "SurfaceDescriptor": "close duplicate fd_count from_bytes is_closed memory_fd name recv send spec to_bytes",
    "SurfaceQueue": (
        "clone close count device export is_closed metadata_size of_buffers open open_consumer open_producer "
        "single_threaded statistics"
    ),
    "Swapchain": (
        "acquire capture close color_space device extent format frame frame_fd image_count is_closed prepare present "
        "present_mode present_prepared publish resize retarget statistics"
    ),
    "View": "array cairo dtype format image image_view layout pillow planes shape skia strides surface writable",
    "WaylandSurface": "display surface",
    "X11Window": "display xid",
    "Window": (
        "close display_name framebuffer_size glfw_window handle is_closed is_minimized native_display native_window "
        "platform poll refresh_rate resize scale should_close size statistics title"
    ),
}


def test_the_table_has_each_public_class() -> None:
    classes = {name for name in vars(vkshare)["__all__"] if isinstance(getattr(vkshare, name), type)}
    assert {name for name in classes if not issubclass(getattr(vkshare, name), BaseException)} == set(MEMBERS)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_public_class_shows_its_public_members_alone(name: str) -> None:
    assert {member for member in dir(getattr(vkshare, name)) if member[0] != "_"} == set(MEMBERS[name].split())

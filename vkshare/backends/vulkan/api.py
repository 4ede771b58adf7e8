"""Cold Vulkan calls: structures that own what they point to, functions that check their results.

Built on the cffi definitions of the PyPI package `vulkan`, not on its wrappers: those keep nested
structures alive only through weak references, so a structure made as a temporary may be freed
before the call. Here a Struct holds all that it points to.

Importing this module needs libvulkan; the package's __init__ turns its absence into a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import vulkan

from vkshare.errors import DeviceLostError, SurfaceLostError, UnsupportedError, VulkanError
from vkshare.util.handles import as_int

ffi: Any = vulkan.ffi
NULL: Any = ffi.NULL

# The preprocessor's constants, which the cffi definitions do not carry (vulkan_core.h).
_DEFINES = {
    "QUEUE_FAMILY_IGNORED": 0xFFFFFFFF,
    "QUEUE_FAMILY_EXTERNAL": 0xFFFFFFFE,
    "WHOLE_SIZE": 0xFFFFFFFFFFFFFFFF,
    "API_VERSION_1_3": 1 << 22 | 3 << 12,
}


class _Constants:
    """Vulkan's constants by name without the VK_: ``VK.IMAGE_TILING_LINEAR``."""

    def __getattr__(self, name: str) -> int:
        value = _DEFINES.get(name)
        if value is None:
            value = int(ffi.integer_const(f"VK_{name}"))
        setattr(self, name, value)
        return value


VK = _Constants()


class Struct:
    """A Vulkan structure, and everything that it points to: alive as long as this object is.

    Fields read through: ``properties.limits.maxImageDimension2D``. A nested structure that such a
    read returns refers to this object's memory without keeping it alive.
    """

    __slots__ = ("_kept", "pointer")

    def __init__(self, pointer: Any, kept: Sequence[Any] = ()) -> None:
        self.pointer = pointer
        self._kept = kept

    def __getattr__(self, field: str) -> Any:
        return getattr(self.pointer, field)


def new(type_name: str, **fields: Any) -> Struct:
    """A zeroed structure with its sType set and the given fields filled in.

    Fields take numbers, handles, None, Struct (by pointer or by value, as the field is), str,
    bytes, and lists of these where the field is an array or a pointer to one, whose length goes to
    the count before it; plain dicts and lists stand for nested structures without pointers.
    """
    ctype, pointers, counts, number = _layout(type_name)
    pointer = ffi.new(ctype)
    if number is not None:
        pointer.sType = number
    kept: list[Any] = []
    for name, value in fields.items():
        if counts.get(name, name) not in fields and isinstance(value, (list, tuple)):
            setattr(pointer, counts[name], len(value))
        setattr(pointer, name, value if type(value) is int else _convert(value, pointers.get(name), kept))
    return Struct(pointer, kept)


@cache
def _layout(type_name: str) -> tuple[Any, dict[str, Any], dict[str, str], int | None]:
    """A pointer to it as a ctype, its pointers' ctypes, its arrays' counts, and its VkStructureType if it has one."""
    types = {name: field.type for name, field in ffi.typeof(type_name).fields}
    pointers = {name: ctype for name, ctype in types.items() if ctype.kind == "pointer"}
    counts = {name: count for count, name in pairwise(types) if count.endswith("Count") and name in pointers}
    return ffi.typeof(f"{type_name} *"), pointers, counts, structure_type(type_name) if "sType" in types else None


def _convert(value: Any, pointer: Any, kept: list[Any]) -> Any:
    """`value` as cffi takes it for a field of that pointer type; None: of another type, by value.

    Objects that must stay alive with it are appended to `kept`.
    """
    if isinstance(value, Struct):
        kept.append(value)
        return value.pointer[0] if pointer is None else value.pointer
    if pointer is None:
        return value
    if value is None:
        return NULL
    if isinstance(value, str):
        value = ffi.new("char[]", value.encode())
    elif isinstance(value, bytes):
        value = ffi.from_buffer(value)
    elif isinstance(value, list | tuple):
        item = pointer.item
        of_item = item if item.kind == "pointer" else None
        value = ffi.new(ffi.typeof(f"{item.cname}[]"), [_convert(each, of_item, kept) for each in value])
    else:
        return value
    kept.append(value)
    return value


def structure_type(type_name: str) -> int:
    """The VkStructureType that belongs to a structure: VkImageCreateInfo -> VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[0-9])", "_", type_name[2:])
    words = re.sub(r"VULKAN_(\d)(\d)", r"VULKAN_\1_\2", words.upper())
    return int(ffi.integer_const(f"VK_STRUCTURE_TYPE_{words}"))


class Functions:
    """The functions of one VkInstance or VkDevice, looked up when first named.

    ``vk.vkQueueWaitIdle(queue)`` takes Struct and None (NULL) as arguments and raises VulkanError
    or DeviceLostError for a negative VkResult; it returns what the function returns. Thread-safe as
    far as the function is.
    """

    def __init__(self, get_proc_addr: Callable[[bytes], Any]) -> None:
        self._get_proc_addr = get_proc_addr

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("vk"):
            raise AttributeError(name)
        function = _checked(name, ffi.cast(f"PFN_{name}", self.pointer(name)))
        setattr(self, name, function)
        return function

    def pointer(self, name: str) -> Any:
        """The function itself. UnsupportedError if there is none."""
        pointer = self._get_proc_addr(name.encode())
        if pointer == NULL:
            raise UnsupportedError(name, "the driver has no such function", "enable the extension that it belongs to")
        return pointer

    def make(self, name: str, *arguments: Any) -> Any:
        """Calls a function whose last parameter is where it writes one result, and returns that.

        ``make("vkCreateImage", device, info, None)``.
        """
        function = getattr(self, name)
        out = ffi.new(function.parameters[-1])
        function(*arguments, out)
        return Struct(out) if function.parameters[-1].item.kind == "struct" else out[0]

    def list(self, name: str, *arguments: Any) -> list[Any]:
        """Calls a function that ends in (count, array) twice, as enumerations go: the array's elements."""
        function = getattr(self, name)
        count = ffi.new("uint32_t *")
        while True:
            function(*arguments, count, None)
            array = ffi.new(ffi.typeof(f"{function.parameters[-1].item.cname}[]"), count[0])
            if function(*arguments, count, array) != VK.INCOMPLETE:
                break
        if function.parameters[-1].item.kind != "struct":
            return list(array[0 : count[0]])
        return [Struct(ffi.addressof(array, i), (array,)) for i in range(count[0])]


def _checked(name: str, pointer: Any) -> Callable[..., Any]:
    signature = ffi.typeof(pointer)
    returns_result = signature.result.cname == "enum VkResult"

    def call(*arguments: Any) -> Any:
        result = pointer(*map(_argument, arguments))
        if returns_result and result < 0:
            raise error(result, name)
        return result

    call.parameters = signature.args  # type: ignore[attr-defined]
    call.pointer = pointer  # type: ignore[attr-defined]
    call.__name__ = name
    return call


def _argument(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.pointer
    return NULL if value is None else value


def error(result: int, call: str) -> VulkanError:
    """The exception for a VkResult."""
    if result == VK.ERROR_DEVICE_LOST:
        return DeviceLostError(result, call)
    if result == VK.ERROR_SURFACE_LOST_KHR:
        return SurfaceLostError(result, call)
    return VulkanError(result, call)


def make_into(out: Any, create: Callable[..., Any], *arguments: Any) -> None:
    """Calls `create(*arguments, out)` for a handle. VulkanError: it is NULL then, which may be destroyed as any other.

    The handle is in `out` even if an exception (Ctrl-C) comes right after the call.
    """
    try:
        create(*arguments, out)
    except VulkanError:
        out[0] = NULL  # the driver may have left anything there
        raise


def handle(type_name: str, value: Any) -> Any:
    """A Vulkan handle of that type from an int, or a cffi or ctypes pointer of any binding."""
    return ffi.cast(type_name, address(value))


def address(value: Any) -> int:
    """The number of a handle or pointer; 0 for NULL and None."""
    if isinstance(value, int):
        return value
    if isinstance(value, ffi.CData):
        return int(ffi.cast("uintptr_t", value))
    return as_int(value)  # None, and handles of other bindings


def text(chars: Any) -> str:
    """A char array as str."""
    return str(ffi.string(chars).decode("utf-8", "replace"))


def global_functions(get_instance_proc_addr: Any = None) -> Functions:
    """The functions that need no instance, from libvulkan or from an engine's own vkGetInstanceProcAddr."""
    return instance_functions(NULL, get_instance_proc_addr)


def instance_functions(instance: Any, get_instance_proc_addr: Any = None) -> Functions:
    """The functions of a VkInstance."""
    get = vulkan.lib.vkGetInstanceProcAddr
    if get_instance_proc_addr is not None:
        get = ffi.cast("PFN_vkGetInstanceProcAddr", address(get_instance_proc_addr))
    return Functions(lambda name: get(instance, name))


def device_functions(instance_vk: Functions, device: Any) -> Functions:
    """The functions of a VkDevice."""
    get: Any = instance_vk.vkGetDeviceProcAddr
    return Functions(lambda name: get(device, name))

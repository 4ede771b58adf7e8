"""Vulkan handles as other bindings hold them, turned into plain integers."""

from __future__ import annotations

import operator
from typing import Any


def as_int(obj: Any, name: str = "handle") -> int:
    """The number of a Vulkan handle.

    Parameters
    ----------
    obj
        An int, a cffi pointer (as PyPI's ``vulkan`` gives them), a ctypes pointer or integer, or None for
        VK_NULL_HANDLE.
    name
        The argument's name, for the error.

    Raises
    ------
    TypeError
        `obj` has another type.
    ValueError
        It is negative or does not fit 64 bits.
    """
    number = _number(obj)
    if number is None:
        raise TypeError(
            f"{name} must be a Vulkan handle (an int, a cffi or ctypes pointer) or an object of vkshare, "
            f"not {type(obj).__name__}"
        )
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {number}; a handle is 0 to 2**64 - 1")
    return number


def not_null(obj: Any, name: str) -> int:
    """as_int() that raises ValueError for VK_NULL_HANDLE."""
    number = as_int(obj, name)
    if not number:
        raise ValueError(f"{name} is VK_NULL_HANDLE")
    return number


def may_be_of_type(obj: Any, name: str) -> bool:
    """Whether the type of `obj` names that handle type, e.g. ``"VkSurfaceKHR"``, or that it is any handle.

    A cffi or ctypes pointer to a type of that name, as Vulkan's headers declare it, or a
    ctypes.c_void_p or ctypes.c_uint64: the two that hold a handle. No int does.
    """
    if type(obj).__module__ == "_cffi_backend":
        import _cffi_backend  # type: ignore[import-untyped, unused-ignore]

        try:
            return str(_cffi_backend.FFI().typeof(obj).cname) == f"struct {name}_T *"
        except TypeError:
            return False
    if not any(base.__module__ in ("ctypes", "_ctypes") for base in type(obj).__mro__):
        return False
    import ctypes

    pointed = getattr(type(obj), "_type_", None)
    return isinstance(obj, (ctypes.c_void_p, ctypes.c_uint64)) or (
        isinstance(obj, ctypes._Pointer) and str(getattr(pointed, "__name__", "")).startswith(name)
    )


def _number(obj: Any) -> int | None:
    if obj is None:
        return 0
    if isinstance(obj, (bool, float, str, bytes)):
        return None
    try:
        return operator.index(obj)
    except TypeError:
        pass
    if type(obj).__module__ == "_cffi_backend":
        return _cffi_number(obj)
    if type(obj).__module__ in ("ctypes", "_ctypes"):
        return _ctypes_number(obj)
    return None


def _cffi_number(obj: Any) -> int | None:
    import _cffi_backend  # type: ignore[import-untyped, unused-ignore]

    try:
        return int(_cffi_backend.FFI().cast("uintptr_t", obj))
    except TypeError:
        return None


def _ctypes_number(obj: Any) -> int | None:
    import ctypes

    if isinstance(obj, ctypes._SimpleCData):
        value = obj.value
        return 0 if value is None else value if isinstance(value, int) else None
    try:
        return ctypes.cast(obj, ctypes.c_void_p).value or 0
    except (ctypes.ArgumentError, TypeError):
        return None

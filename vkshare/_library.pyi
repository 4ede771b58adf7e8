"""The functions, types and constants of the C library's headers, through cffi: cmake/emit_library.py."""

from typing import Any

ffi: Any
lib: Any

"""The C references, compiled when they are first needed, with whatever compiler the machine has."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cffi import FFI

_C = Path(__file__).parent / "c"
_FLAGS = ("-std=gnu11", "-fPIC", "-shared", f"-I{_C.parents[1] / 'native' / 'third_party'}")
_TIMED_OUT = -2147483647  # of interface.h
_VULKAN = """
    typedef uintptr_t VkPhysicalDevice, VkDevice, VkQueue, VkCommandBuffer;
    typedef uintptr_t PFN_vkVoidFunction, PFN_vkGetDeviceProcAddr, PFN_vkQueueSubmit2, PFN_vkSignalSemaphore,
        PFN_vkGetSemaphoreCounterValue, PFN_vkWaitSemaphores, PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR;
    typedef uint64_t VkSemaphore, VkFence, VkImage, VkImageView, VkDeviceMemory, VkBuffer, VkPipeline, VkCommandPool,
        VkSurfaceKHR, VkSwapchainKHR;
    typedef struct { uint32_t width, height; } VkExtent2D;
    typedef struct gpu gpu;
"""  # of c/vulkan.h, with handles and functions as integers

_FUNCTION = re.compile(r"^(?!static)(\w[^#;{}=]*\))\s*\{", re.MULTILINE)  # its declaration, where it is defined


def _declarations() -> Iterator[str]:
    """The declarations of C's headers, without the preprocessor's lines, and of functions that are not static."""
    for header in ("interface.h", "raster_reference.h"):
        yield re.sub(r"^#.*", "", (_C / header).read_text(), flags=re.MULTILINE)
    for file in sorted(_C.glob("*.c")):
        if file.name != "raster_reference.c":  # macros name its functions
            yield from (f"{each[1]};" for each in _FUNCTION.finditer(file.read_text()))


ffi: Any = FFI()
ffi.cdef("".join((_VULKAN, *_declarations())))


class CFailed(Exception):
    """A call of the C program failed."""


class NoCompiler(CFailed):
    """There is no C compiler, or it failed: nothing can be compared with C."""


@functools.cache
def library(*sources: str, flags: tuple[str, ...] = ("-O2",)) -> Any:
    """The functions and constants of c/interface.h, from the shared library made of those files of benchmarks/c.

    Raises
    ------
    NoCompiler
        With the reason.
    """
    # Once it is loaded the file may go.
    with tempfile.TemporaryDirectory() as made:
        target = os.path.join(made, "reference.so")
        done = _run(*_FLAGS, *flags, *(str(_C / name) for name in sources), "-o", target)
        if done.returncode:
            raise NoCompiler(f"{done.args[0]} failed: {done.stderr.strip()[:500]}")
        return ffi.dlopen(target)


def seconds(result: float) -> float:
    """The result of a timed loop. Raises CFailed for what is none."""
    if result < 0:
        what = "timed out" if result == _TIMED_OUT else f"VkResult {result:.0f}"
        raise CFailed(f"the loop in C: {what}")
    return result


def version() -> str:
    """The first line of what the compiler says of itself."""
    try:
        reported = _run("--version").stdout
    except NoCompiler as error:
        return str(error)
    return reported.splitlines()[0] if reported else "an unknown C compiler"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler: the value of CC, else cc or gcc."""
    found = shutil.which("cc") or shutil.which("gcc")
    command = shlex.split(os.environ.get("CC", "")) or ([found] if found else [])
    if not command:
        raise NoCompiler("no C compiler: install gcc, or set CC")
    try:
        return subprocess.run([*command, *arguments], capture_output=True, text=True)
    except OSError as error:
        raise NoCompiler(f"{command[0]}: {error}") from None

#!/usr/bin/env python3
"""Write the C source of vkshare._library, the module by which Python calls the C library through cffi.

    python cmake/emit_library.py --compiler cc --map native/vkshare.map.in --output _library.c
    vkshare.h vsync/bridge.h

The declarations are those of the headers in native/, and of the headers that these include, as the
C compiler's preprocessor reads them: no declaration is written twice. A function is left out unless
libvkshare.so exports it. A structure with a field that cffi cannot read (_Atomic, pthread_mutex_t)
is opaque.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cffi

NATIVE = Path(__file__).resolve().parents[1] / "native"

# Functions that wait for another thread or for the kernel, beside those with a parameter
# `deadline`.
WAITS = {
    "vks_bridge_close",
    "vks_bridge_open",
    "vks_cuda_timeline_detach",
    "vks_cuda_timeline_signal",  # a full stream blocks until one of its host functions has run, in Python perhaps
    "vks_cuda_timeline_wait",
    "vks_device_create",  # starts threads, and creates semaphores in the driver
    "vks_device_shutdown",
    "vks_display_set_source",
    "vks_display_shutdown",
    "vks_fence_close",  # waits for submissions to another API's queue, where a host function may need the GIL
    "vks_memory_drop_unmapped",
    "vks_memory_cover",
    "vks_memory_find_shared",
    "vks_memory_share",  # copies an image
    "vks_memory_replace",  # a read of /proc/self/maps takes a lock on this process's memory map
    "vks_memory_reserve",
    "vks_queue_close",
    "vks_surface_acquire_from_external",
    "vks_surface_close",
    "vks_surface_export",
    "vks_swapchain_attach",
    "vks_swapchain_create",
    "vks_swapchain_image",
    "vks_swapchain_new_offscreen",
    "vks_swapchain_retarget",
    "vks_swapchain_take_semaphores",
    "vks_swapchain_try_close",
    "vks_swapchain_unref",  # the last one waits for the presentation engine
    "vks_work_ring_take",
}

# The ends of objects, as calls in C of their one argument: no signal handler of Python runs between
# two of them.
ENDS = {
    "vks_device": ("vks_device_shutdown", "vks_device_unref"),
    "vks_display": ("vks_display_shutdown", "vks_display_unref"),
    "vks_dispatcher": ("vks_dispatcher_close", "vks_dispatcher_unref"),
    "vks_observer": ("vks_observer_destroy",),
    "vks_bridge": ("vks_bridge_destroy",),
    "vks_bridge_end": ("vks_bridge_leave",),
    "vks_cuda_timeline": ("vks_cuda_timeline_destroy",),
    "vks_drawable": ("vks_drawable_unref",),
    "vks_event_queue": ("vks_event_queue_close", "vks_event_queue_unref"),  # fences may refer to it still
    "vks_fence": ("vks_fence_close", "vks_fence_unref"),
    "vks_queue": ("vks_queue_close", "vks_queue_unref"),
    "vks_recorder": ("vks_recorder_unref",),
    "vks_swapchain": ("vks_swapchain_unref",),
    "vks_tracker": ("vks_tracker_destroy",),
    "vks_server_poll": ("vks_server_poll_destroy",),
    "vks_surface": ("vks_surface_close", "vks_surface_unref"),
    "vks_work": ("vks_work_unref",),
    "vks_work_ring": ("vks_work_ring_destroy",),
}

# The first parameter of functions that may take a lock that a thread holds while it waits for a
# device's queue lock.
LOCKED = re.compile(r"\((?:const )?vks_(?:device|surface|fence|commands|swapchain|queue|work) \*")

UNREADABLE = re.compile(r"\b(_Atomic|pthread_\w+|va_list)\b|\w+ (\w+) : \d")


def preprocessed(compiler: str, headers: list[str]) -> str:
    """Return the text of these headers, and of those of ours that they include, with its #defines."""
    command = [
        compiler,
        "-E",
        "-dD",
        "-x",
        "c",
        "-std=gnu11",
        "-I",
        str(NATIVE),
        "-isystem",
        str(NATIVE / "third_party"),
    ]
    code = "".join(f'#include "{header}"\n' for header in headers)
    text = subprocess.run([*command, "-"], input=code, check=True, capture_output=True, text=True).stdout
    kept, is_ours = [], False
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "(.*?)"', line):
            is_ours = NATIVE in Path(marker[1]).parents and "third_party" not in marker[1]
        elif is_ours:
            kept.append(line)
    return "\n".join(kept)


def items(code: str) -> Iterator[str]:
    """Yield the declarations and definitions of C code without preprocessor lines."""
    depth = begin = 0
    for place, character in enumerate(code):
        depth += (character == "{") - (character == "}")
        item = code[begin : place + 1].strip()
        is_body = character == "}" and not re.match(r"typedef|struct \w+ {|union|enum", item)
        if depth == 0 and (character == ";" or is_body):
            yield item
            begin = place + 1


def is_exported(item: str, exported: set[str]) -> bool:
    """Whether this declares a function or an array that libvkshare.so exports."""
    name = re.search(r"\b(\w+) ?[(\[]", item)
    return item.endswith(";") and name is not None and name[1] in exported


def declarations(text: str, exported: set[str]) -> Iterator[str]:
    """Yield what cffi's cdef() takes of preprocessed headers."""
    for name, value in re.findall(r"^#define (VKS_\w+) (.+)", text, re.M):
        if re.fullmatch(r"[\w\s()<+-]+", value) and "__" not in value:
            yield f"#define {name} ..."
    code = re.sub(r"^#.*", "", text, flags=re.M)
    code = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", code)
    for item in items(re.sub(r"\s+", " ", code)):
        if aggregate := re.match(r"(?:typedef )?(struct|union) (\w+) {", item):
            name = aggregate[2]
            if UNREADABLE.search(item):
                yield f"typedef struct {name} {name};" if item.startswith("typedef") else f"struct {name};"
            else:
                yield re.sub(r"}([^}]*)$", r"...; }\1", item)  # the compiler knows the layout: it may be packed
        elif item.startswith(("typedef", "enum")) or is_exported(item, exported):
            yield item


def release_of(name: str, declaration: str, parameters: list[str]) -> str | None:
    """Return the C expression that releases the GIL for this function, where that is needed; None: it never is."""
    if "deadline" in parameters:
        return "vkpy_sleep_until(deadline)"
    if name in WAITS:
        return "vkpy_sleep_until(VKS_FOREVER)"
    return "vkpy_let_holder_run()" if LOCKED.search(declaration) else None


def wait_macros(functions: dict[str, str]) -> Iterator[str]:
    """Yield a macro around each function that may release the GIL."""
    for name, declaration in functions.items():
        plain = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"\1", declaration)  # a pointer to a function is one parameter
        parameters = re.findall(r"(\w+)(?:\[\w*\])? ?[,)]", plain.partition("(")[2])
        if release := release_of(name, declaration, parameters):
            macro = "VKPY_WAIT_VOID" if declaration.startswith("void ") else "VKPY_WAIT"
            call = f"{name}({', '.join(parameters)})"
            yield f"#define {call} {macro}({release}, {call})"


def own_functions() -> Iterator[tuple[str, str]]:
    """Yield (declaration, body) of the module's own functions, most of them destructors of cells.

    A cell has the address of an object or NULL, or two fds, each of which may be -1, or counts a
    queue lock.
    """
    yield "void expect_queue_lock(int *cell)", "{ vkpy_queue_locks += *cell = 1; }"
    yield "void forget_queue_lock(int *cell)", "{ vkpy_queue_locks -= *cell; }"
    yield "void lock_queue(void *callables)", "{ vkpy_call_back(callables, 0); }"
    yield "void unlock_queue(void *callables)", "{ vkpy_call_back(callables, 1); }"
    yield "void release_fds(int *cell)", "{ for (int i = 0; i < 2; i++) if (cell[i] >= 0) close(cell[i]); }"
    yield "void empty_fds(int *cell)", "{ cell[0] = cell[1] = -1; }"
    take = "int page = cell[0], semaphore = cell[1]; empty_fds(cell);"
    yield (
        "vks_status open_fence(vks_device *device, int *cell, vks_fence **out)",
        f"{{ {take} return vks_fence_open(device, page, semaphore, out); }}",
    )
    yield (
        "vks_status open_surface(vks_device *device, const vks_surface_info *info, int *cell, vks_surface **out)",
        f"{{ {take} return vks_surface_open(device, info, page, semaphore, out); }}",
    )
    yield (
        "vks_status pin(vks_swapchain *swapchain, uint64_t generation, vks_swapchain **cell)",
        "{ vks_status status = vks_swapchain_pin(swapchain, generation);"
        " if (status == VKS_OK) vks_swapchain_ref(*cell = swapchain); return status; }",
    )
    yield (
        "void unpin(vks_swapchain **cell)",
        "{ if (*cell != NULL) { vks_swapchain_unpin(*cell); vks_swapchain_unref(*cell); } }",
    )
    for kind, calls in ENDS.items():
        body = " ".join(f"{call}(*cell);" for call in calls)
        yield f"void release_{kind}({kind} **cell)", f"{{ if (*cell != NULL) {{ {body} }} }}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="cc", help="the C compiler, for its preprocessor")
    parser.add_argument("--map", type=Path, required=True, help="the version script of libvkshare.so")
    parser.add_argument("--output", type=Path, required=True, help="the C source")
    parser.add_argument("headers", nargs="+", help="relative to native/")
    options = parser.parse_args()
    exported = set(re.findall(r"^ +(vks_\w+);", options.map.read_text(), re.M))
    found = list(dict.fromkeys(declarations(preprocessed(options.compiler, options.headers), exported)))
    functions = {match[1]: item for item in found if (match := re.match(r"(?!typedef)[^(]*\b(vks_\w+)\(", item))}
    preamble = [f'#include "{header}"' for header in [*options.headers, "python/library.h"]]
    preamble += wait_macros(functions)  # also for the calls of the own functions
    preamble += [f"static {declaration} {body}" for declaration, body in own_functions()]
    ffi = cffi.FFI()
    ffi.cdef("\n".join([*found, *(f"{declaration};" for declaration, _ in own_functions())]))
    ffi.set_source("vkshare._library", "\n".join(preamble) + "\n")
    ffi.emit_c_code(str(options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())

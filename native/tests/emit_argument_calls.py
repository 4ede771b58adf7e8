#!/usr/bin/env python3
"""Write a caller for each public function, which draws its arguments by their types (C8).

    python native/tests/emit_argument_calls.py argument_calls.h

test_arguments.c includes the output; argument_pools.h has the functions that draw.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ("vkshare.h", "vkshare_surface.h", "vkshare_ipc.h", "vkshare_vulkan.h", "vkshare_present.h")
OBJECTS = "device surface fence commands work event_queue queue mirror swapchain display dispatcher observer"
POOLS = {f"vks_{name}" for name in OBJECTS.split()}
KEPT = {"vks_submission", "vks_frame", "vks_surface_descriptor", "vks_fence_descriptor", "vks_queue_descriptor"}

# Pointers that may be NULL, and those that may be while the count behind them is 0.
OPTIONAL_OUTPUTS = {"vks_semaphore_point *signal"}
OPTIONAL = {"user", "inbox", "mailbox", "pixels", "metadata", "slots", "damage"}
COUNTED = {
    "tokens": "capacity",
    "results": "capacity",
    "uses": "n_uses",
    "vks_adapter *out": "capacity",
}

# Parameters whose type alone does not say what is valid. A handle of Vulkan is a pointer: 0 is the only garbage.
SPECIAL = {
    "retire": "NULL",
    "user": "NULL",
    "inbox": "NULL",
    "mailbox": "NULL",
    "program": "NULL",
    "deadline": "argument_deadline()",
    "command_buffer": "argument_chance(2) ? 3 : 0",
    "acquire_commands": "0",
    "initial_commands": "0",
    "release_commands": "0",
    "vk_semaphore": "0",
    "semaphore": "0",
    "uint64_t surface": "0",
    "get_instance_proc_addr": "no_function",
    "VkInstance instance": "MAYBE(argument_memory())",
    "VkPhysicalDevice physical_device": "MAYBE(argument_memory())",
    "VkCommandBuffer commands": "NULL",
    "const int *page_fds": "draw_fds()",
    "vks_surface *const *surfaces": "draw_surfaces()",
    "const uint8_t device_uuid[16]": "draw_uint8_t()",
    "const uint8_t driver_uuid[16]": "draw_uint8_t()",
    "const void *metadata": "MAYBE(argument_memory())",
    "void *metadata": "argument_memory()",
    "void *pixels": "MAYBE(argument_memory())",
    "void *device": "draw_vks_device()",
    "vks_surface **surfaces": "MAYBE(opened)",
    "uint64_t *tokens": "MAYBE(numbers)",
    "vks_status *results": "MAYBE((vks_status *)statuses)",
    "vks_adapter *out": "MAYBE(adapters)",
}
OWNED = {"page_fd": "argument_owned_fd()", "semaphore_fd": "argument_owned_partner()"}
COUNTS = {"n_uses", "n_slots", "capacity", "count", "n_queues"}
ENDS = re.compile("(close|close_now|shutdown|destroy|_lost|display_unref|dispatcher_unref)$")  # are called less
MORTAL = {"vks_device_shutdown", "vks_device_try_shutdown", "vks_device_mark_lost"}
TAKES = {"vks_display_unref", "vks_dispatcher_unref", "vks_observer_destroy"}

# The code before or after a call that leaves no wait without an end, and no owner without its object.
BEFORE = {
    "vks_display_unref": "if (display) vks_display_shutdown(display);",
    "vks_dispatcher_unref": "if (dispatcher) vks_dispatcher_close(dispatcher);",
    "vks_surface_import_memory": "fd = argument_owned_fd();",
    "vks_surface_sync": "surface = argument_of_stub(surface);",
    "vks_surface_submit_info": "surface = argument_of_stub(surface);",
}
AFTER = {
    "vks_set_interrupt_interval": "vks_set_interrupt_interval(0);",
    "vks_surface_import_memory": "if (status && fd >= 0) close(fd);",
    "vks_surface_external_signal_value": "if (!status) vks_surface_external_lost(surface);",
    "vks_device_try_lock_queue": "if (!status) vks_device_unlock_queue(device);",
    "vks_device_lock_queue": "vks_device_unlock_queue(device);",
    "vks_fence_external_begin": "if (!status) vks_fence_external_end(fence, 0);",
    "vks_surface_sync": "if (!status && signal) argument_submit(surface, *wait, *signal);",
    "vks_surface_submit_info": "if (!status) argument_submit(surface, argument_point(wait), argument_point(signal));",
    "vks_swapchain_take_semaphores": "if (!status) argument_draw(swapchain, frame, *acquired, *rendered);",
    "vks_surface_descriptor_map": "if (!status) munmap(*pixels, descriptor->body.memory_size);",
    "vks_queue_open_surfaces": "for (int i = 0; !status && i < (int)descriptor->n_surfaces; i++)"
    " keep_vks_surface(opened[i]);",
}

PREAMBLE = """/* Written by emit_argument_calls.py. */
#define MAYBE(pointer) (argument_chance(12) ? NULL : (pointer))
static vks_surface *opened[VKS_MAX_QUEUE_SURFACES];
static uint64_t numbers[ARGUMENT_ELEMENTS];
static vks_status statuses[ARGUMENT_ELEMENTS];
static vks_adapter adapters[ARGUMENT_ELEMENTS];
static PFN_vkVoidFunction no_function(VkInstance instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}
"""

# Functions whose object owns the fd.
BORROWED = {"vks_observer_fd", "vks_queue_fd", "vks_surface_acquire_fd", "vks_swapchain_frame_fd"}


@dataclass
class Function:
    """A declaration of a header, and the lines of its caller."""

    result: str
    name: str
    parameters: list[str]
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    nulls: list[str] = field(default_factory=list)


def functions(text: str) -> Iterator[Function]:
    """Yield the functions that a header declares."""
    code = re.sub(r"/\*(?:.|\n)*?\*/|^\s*#.*", "", text, flags=re.M)
    for match in re.finditer(r"^((?:const )?\w+ \*?)(vks_\w+)\(((?:[^(){};]|\([^()]*\))*)\);", code, re.M):
        parameters = re.split(r",\s*(?![^()]*\))", re.sub(r"\s+", " ", match[3]))
        yield Function(match[1].strip(), match[2], [] if parameters == ["void"] else parameters)


def add_out(function: Function, kind: str, name: str) -> None:
    """Pass the address of a variable or NULL, and keep what the function makes."""
    pointer = "*" if kind.endswith("*") else ""
    function.before.append(f"{kind.rstrip(' *')} {pointer}made_{name} = {'NULL' if pointer else '{0}'};")
    function.before.append(f"{kind.rstrip(' *')} {pointer}*{name} = MAYBE(&made_{name});")
    plain = kind.rstrip(" *")
    if pointer and plain in POOLS:
        function.after.append(f"if (!status) keep_{plain}(made_{name});")
    elif plain in KEPT:
        function.after.append(f"if (!status) keep_{plain}(&made_{name});")
    elif plain == "int" and name != "semaphore_fd" and function.name not in BORROWED:
        partner = "made_semaphore_fd" if function.name.endswith("_export") else "-1"
        function.after.append(f"if (!status) argument_keep_fds(made_{name}, {partner});")


def add_argument(function: Function, parameter: str) -> None:
    """Add the variable of one parameter."""
    if "(*" in parameter:
        function.before.append("void (*retire)(void *) = NULL;")
        return
    kind, name, array = re.fullmatch(r"(.*?[ *])(\w+)(\[\d+\])?", parameter).groups()
    kind = kind.strip() + (" *" if array else "")
    plain = re.sub(r"const |[ *]", "", kind)
    is_pointer = "*" in kind or plain in {"VkInstance", "VkPhysicalDevice", "VkCommandBuffer"}
    is_optional = name in OPTIONAL | {"retire", "program"} or parameter in OPTIONAL_OUTPUTS
    if (is_pointer and not is_optional) or parameter == "void **pixels":
        count = COUNTED.get(parameter) or COUNTED.get(name)
        function.nulls.append(f"(!{name} && {count})" if count else f"!{name}")
    if special := SPECIAL.get(parameter) or SPECIAL.get(name):
        value = special
    elif name in {"page_fd", "semaphore_fd"} and "open" in function.name and plain == "int":
        value = "argument_fd()" if function.name == "vks_queue_open" else OWNED[name]
    elif "*" in kind and not kind.startswith("const") and (kind.count("*") == 2 or plain not in POOLS):
        is_descriptor = function.name.endswith("_descriptor_close")
        if not is_descriptor:
            return add_out(function, kind[:-1].strip(), name)
        value = f"({kind})draw_{plain}()"
    elif plain == "vks_device" and function.name in MORTAL:
        value = "draw_mortal_device()"
    elif "*" in kind or plain == "vks_interval":
        value = f"{'take' if function.name in TAKES else 'draw'}_{plain}()"
    elif name in COUNTS:
        value = "argument_count()"
    elif plain == "int":
        value = "argument_fd()"
    elif plain == "bool":
        value = "argument_chance(2)"
    else:
        value = f"({kind})argument_number()"
    function.before.append(f"{kind}{'' if kind.endswith('*') else ' '}{name} = {value};")
    return None


def caller(function: Function) -> str:
    """Return the C function that calls it once."""
    for parameter in function.parameters:
        add_argument(function, parameter)
    names = [re.findall(r"\w+", re.sub(r"\[\d+\]|\)\(.*", "", parameter))[-1] for parameter in function.parameters]
    call = f"{function.name}({', '.join(names)});"
    lines = [*function.before, *filter(None, [BEFORE.get(function.name)])]
    if function.name.endswith("_unref") and function.name not in TAKES:
        lines.append(f"if ({names[0]}) {function.name[:-5]}ref({names[0]});")
    is_status = function.result == "vks_status"
    lines.append(f"vks_status status = {call}" if is_status else f"(void){call}")
    if is_status and function.nulls:
        lines.append(f'expect_refusal("{function.name}", status, {" || ".join(function.nulls)});')
    if function.name.endswith("_ref"):
        lines.append(f"if ({names[0]}) {function.name[:-3]}unref({names[0]});")
    lines += [*filter(None, [AFTER.get(function.name)]), *function.after]
    if is_status:
        lines.append("(void)status;")
    return f"static void call_{function.name}(void)\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def main() -> int:
    native = Path(__file__).resolve().parents[1]
    found = [function for header in HEADERS for function in functions((native / header).read_text())]
    table = "".join(
        f'    {{"{function.name}", call_{function.name}, {str(bool(ENDS.search(function.name))).lower()}}},\n'
        for function in found
    )
    text = PREAMBLE + "\n".join(map(caller, found))
    members = "    const char *name;\n    void (*call)(void);\n    bool ends;\n"
    text += f"static const struct {{\n{members}}} callers[] = {{\n{table}}};\n"
    Path(sys.argv[1]).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

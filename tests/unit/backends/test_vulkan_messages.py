"""What the validation layer says reaches log and sinks, from any thread, and never stops the thread that caused it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import vkshare as vks

pytestmark = pytest.mark.wheel

# The layer is made to speak in a process of its own: here its messages would fail the test.
PRELUDE = """
import ctypes, logging, threading, time
import vkshare as vks
from vkshare.backends import vulkan
from vkshare.backends.vulkan.api import address, handle, new

heard = []
remove = vulkan.add_message_sink(lambda *message: heard.append(message))
backend = vulkan.open(vulkan.adapters()[0], True)
vulkan.flush_messages()
heard.clear()

def offend():  # a buffer of no bytes: VUID-VkBufferCreateInfo-size-00912
    vk, device = backend.context.vk, backend.context.device
    buffer = vk.make("vkCreateBuffer", device, new("VkBufferCreateInfo", usage=1), None)
    vk.vkDestroyBuffer(device, buffer, None)
"""


@pytest.fixture
def run(vks_adapter: vks.Adapter):
    """Runs a script with the validation layer; its output."""
    if vks_adapter.backend != "vulkan":
        pytest.skip("of the Vulkan backend")
    from vkshare.backends import vulkan

    if vulkan.validation_layer_version() is None:
        pytest.skip("there is no validation layer")

    def run_script(script: str) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "VKSHARE_VALIDATION"}
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(script)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run_script


def test_a_mistake_is_heard_by_sink_and_log(run) -> None:
    reported = run(
        """
        logging.basicConfig()
        offend()
        vulkan.flush_messages()
        [(severity, name, text)] = [m for m in heard if "VkBufferCreateInfo" in m[1]]
        print(severity, name, "size" in text)
        """
    )
    assert "error VUID-VkBufferCreateInfo-size-00912 True" in reported
    assert "ERROR:vkshare.validation:VUID-VkBufferCreateInfo-size-00912" in reported


def test_a_sink_that_was_taken_away_hears_no_more(run) -> None:
    reported = run(
        """
        remove()
        remove()
        offend()
        vulkan.flush_messages()
        print("heard", len(heard))
        """
    )
    assert "heard 0" in reported


def test_a_sink_that_fails_hinders_nobody(run) -> None:
    reported = run(
        """
        logging.basicConfig()
        vulkan.add_message_sink(lambda *_: 1 / 0)
        also = []
        vulkan.add_message_sink(lambda *message: also.append(message))
        offend()
        vulkan.flush_messages()
        print("also", len(also) > 0)
        """
    )
    assert "also True" in reported
    assert "ZeroDivisionError" in reported


def test_the_thread_that_causes_a_message_needs_no_gil(run) -> None:
    """A call that keeps the GIL, as the core's do: a callback that wanted it could wait for ever."""
    reported = run(
        """
        import faulthandler
        faulthandler.dump_traceback_later(20, exit=True)
        context = backend.context
        pointer = context.physical.vk.vkGetDeviceProcAddr(context.device, b"vkCreateBuffer")
        keeping = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address(pointer))
        info, out = new("VkBufferCreateInfo", usage=1), ctypes.c_uint64()
        keeping(address(context.device), address(info.pointer), None, ctypes.addressof(out))
        vulkan.flush_messages()
        print("heard", any("VkBufferCreateInfo" in name for _, name, _ in heard))
        context.vk.vkDestroyBuffer(context.device, handle("VkBuffer", out.value), None)
        """
    )
    assert "heard True" in reported


def test_synchronization_validation_is_on(run) -> None:
    reported = run(
        """
        from vkshare.backends.vulkan.memory import host_buffer
        from vkshare.backends.vulkan.objects import Objects
        context = backend.context
        buffer, memory = host_buffer(Objects(context), 256, 2)  # TRANSFER_DST

        def two_writes(commands):
            context.vk.vkCmdFillBuffer(commands, buffer, 0, 256, 1)
            context.vk.vkCmdFillBuffer(commands, buffer, 0, 256, 2)

        context.run(two_writes)
        vulkan.flush_messages()
        print([name for _, name, _ in heard])
        """
    )
    assert "SYNC-HAZARD-WRITE-AFTER-WRITE" in reported

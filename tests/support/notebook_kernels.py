"""A pytest plugin: real kernels of notebooks, driven as a front end does it, without a browser."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.required_parts import need

HANG = 60.0  # seconds: only ends hangs


class Kernel:
    """An ipykernel in a process of its own."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self._manager, self._client = start_new_kernel(startup_timeout=HANG)
        self.comm_messages: list[Any] = []  # of the widgets, that came so far

    def run(self, code: str) -> dict[str, Any]:
        """Run a cell; return the bundle that it shows, {} if none. AssertionError: it raises."""
        asked = self._client.execute(code)
        shown: dict[str, Any] = {}
        while True:
            message = self._client.get_iopub_msg(timeout=HANG)
            kind, content = message["msg_type"], message["content"]
            self._keep(message)
            if message["parent_header"].get("msg_id") != asked:
                continue
            assert kind != "error", "\n".join(content["traceback"])
            if kind in ("execute_result", "display_data"):
                shown = content["data"]
            elif kind == "stream":
                print(content["text"])
            elif kind == "status" and content["execution_state"] == "idle":
                return shown

    def until(self, is_true: Callable[[], Any]) -> None:
        """Take messages of widgets until something is true."""
        limit = time.monotonic() + HANG
        while not is_true():
            assert time.monotonic() < limit, self.comm_messages
            with contextlib.suppress(queue.Empty):
                self._keep(self._client.get_iopub_msg(timeout=0.2))

    def settle(self) -> None:
        """Take the messages that came, until nothing comes for a while."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._keep(self._client.get_iopub_msg(timeout=0.5))

    def say(self, comm: str, content: Any) -> None:
        """A custom message of a widget's view."""
        data = {"method": "custom", "content": content}
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)

    def _keep(self, message: Any) -> None:
        if message["msg_type"].startswith("comm_"):
            self.comm_messages.append(message)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel with vkshare, and a device of this test's driver as `device`."""
    for name in ("ipykernel", "anywidget", "PIL"):
        need("notebook", importlib.util.find_spec(name) is not None, f"{name} is missing: pip install vkshare[test]")
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    made = Kernel()
    try:
        made.run("import sys, time, numpy as np, vkshare as vks\ndevice = vks.open()")
        yield made
        made.run("device.close()")
    finally:
        made.close()

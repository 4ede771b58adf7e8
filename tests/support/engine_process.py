"""A process with the layer VK_LAYER_VKSHARE_engines, which runs one function of a test on this run's driver.

An engine keeps its VkInstance until its process ends, so each test has a process of its own. The
validation layer can be above the layer (it sees the engine's calls), below it (it sees the calls that
reach the driver), or absent; its complaints fail the test.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import forked_calls
from vkshare.engines import layer

LAYER = "VK_LAYER_VKSHARE_engines"
VALIDATION = "VK_LAYER_KHRONOS_validation"
# As the first filter of vkshare.testing.validation: no debug names tell an opened image of an engine.
_OPENED = (
    "UNASSIGNED-CoreValidation-DrawState-InvalidImageLayout",
    r"expects VkImage 0x\w+\[\] .*VK_IMAGE_LAYOUT_GENERAL--instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED",
)
_SYNCHRONIZATION = "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"


def run_with_layer(function: Callable[..., Any], *arguments: Any, validation: str = "", timeout: float = 110) -> Any:
    """Return what ``function(*arguments)`` returns in a process of its own; the layer is for it to enable.

    `validation`: "above", "below" or "". The function is one at the top level of a file; arguments and
    result must pickle. Its exception is raised here.
    """
    env = {**os.environ, "VKSHARE_VALIDATION": "0", "WGPU_BACKEND_TYPE": "Vulkan"}
    env |= layer_variables(validation)
    path = sys.modules[function.__module__].__file__
    with tempfile.TemporaryDirectory(prefix="vkshare-engine-") as folder:
        answer = Path(folder, "answer")
        call = path, function.__qualname__, arguments, str(answer)
        end = forked_calls.parent().run(__name__, "_answer", call, env, timeout)
        text = end.stdout + end.stderr
        if end.status is None:
            raise AssertionError(f"{function.__qualname__} took more than {timeout} s:\n{text[-8000:]}")
        if not answer.exists():
            raise AssertionError(f"{function.__qualname__}: exit status {end.status}:\n{text[-8000:]}")
        kind, value, reported = pickle.loads(answer.read_bytes())
    if kind == "error":
        value.add_note(reported + text[-4000:])
        raise value
    assert end.status == 0, f"exit status {end.status} at the end:\n{text[-8000:]}"
    found = complaints(text)
    assert not found, "\n".join(found[:5])
    return value


def layer_variables(validation: str) -> dict[str, str]:
    """Return the variables that put the validation layer above the layer, or below it; "": none."""
    if not validation:
        return {}
    # Loaders as old as 1.3.239 order layers by the folders of their manifests, later ones by their names.
    places = [(VALIDATION, os.environ.get("VK_LAYER_PATH", "")), (LAYER, str(layer.folder()))]
    names, folders = zip(*(places if validation == "above" else reversed(places)), strict=True)
    return {
        "VK_INSTANCE_LAYERS": ":".join(names),
        "VK_LAYER_PATH": ":".join(filter(None, folders)),
        "VK_LAYER_ENABLES": _SYNCHRONIZATION,
    }


def complaints(text: str) -> list[str]:
    """Return the messages of the validation layer in the output of a process, without the known false ones."""
    from vkshare.backends import vulkan
    from vkshare.testing.validation import FILTERS

    version = vulkan.validation_layer_version() or ""
    known = [(filter.message_id, filter.pattern) for filter in FILTERS if filter.layer == version]
    known += [_OPENED] if version == "1.3.239" else []
    found = dict.fromkeys(re.findall(r"^.*Validation (?:Error|Warning): .*$", text, re.MULTILINE))
    return [each for each in found if not any(name in each and re.search(pattern, each) for name, pattern in known)]


def _answer(path: str | None, name: str, arguments: tuple[Any, ...], answer: str) -> None:
    """In the child: what the function returned or raised, into a file."""
    reply: tuple[str, Any, str]
    try:
        spec = importlib.util.spec_from_file_location("engine_test", path or "")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["engine_test"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        reply = "value", getattr(module, name)(*arguments), ""
    except BaseException as error:
        reply = "error", error, traceback.format_exc()
        error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        data = pickle.dumps(reply)
        pickle.loads(data)
    except Exception:
        data = pickle.dumps(("error", AssertionError(f"{type(reply[1]).__name__}: {reply[1]}"), reply[2]))
    part = Path(answer + ".part")
    part.write_bytes(data)
    with contextlib.suppress(FileNotFoundError):
        part.rename(answer)

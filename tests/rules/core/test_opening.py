"""vkshare.open(): the validation layer, which is loaded or refused, and never left out in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vkshare import adapters

Start = Callable[..., subprocess.CompletedProcess[str]]
OPEN = "import vkshare; print(vkshare.open({}).backend)"


@pytest.fixture
def start() -> Start:
    """Opens a device in a process of its own, for which the loader finds no layer."""

    def run(arguments: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        left_out = ("VKSHARE_BACKEND", "VKSHARE_ADAPTER", "VKSHARE_VALIDATION")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment |= {"VK_LAYER_PATH": "/nonexistent", **variables}
        command = [sys.executable, "-W", "ignore", "-c", OPEN.format(arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)

    return run


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ("validation=True", {}),
        ("", {"VKSHARE_VALIDATION": "1"}),
        ("", {"VKSHARE_VALIDATION": "1", "VKSHARE_BACKEND": "vulkan"}),
    ],
)
def test_a_missing_validation_layer_is_an_error_with_its_name_and_never_another_backend(
    start: Start, arguments: str, variables: dict[str, str]
) -> None:
    if not any(adapter.backend == "vulkan" for adapter in adapters()):
        pytest.skip("there is no Vulkan driver")
    ended = start(arguments, **variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "UnsupportedError: validation is not supported" in ended.stderr
    assert "VK_LAYER_KHRONOS_validation" in ended.stderr
    assert "unset VKSHARE_VALIDATION" in ended.stderr


@pytest.mark.parametrize(("arguments", "variables"), [("validation=True", {}), ("", {"VKSHARE_VALIDATION": "1"})])
def test_a_layer_that_is_listed_and_cannot_be_loaded_is_an_error_with_its_name_too(
    start: Start, tmp_path: Path, arguments: str, variables: dict[str, str]
) -> None:
    if not any(adapter.backend == "vulkan" for adapter in adapters()):
        pytest.skip("there is no Vulkan driver")
    layer = {
        "name": "VK_LAYER_KHRONOS_validation",
        "type": "GLOBAL",
        "library_path": str(tmp_path / "missing.so"),
        "api_version": "1.3.239",
        "implementation_version": "1",
        "description": "its library is missing",
    }
    (tmp_path / "layer.json").write_text(json.dumps({"file_format_version": "1.2.0", "layer": layer}))
    ended = start(arguments, VK_LAYER_PATH=str(tmp_path), **variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "UnsupportedError: validation is not supported" in ended.stderr
    assert "cannot load it" in ended.stderr


@pytest.mark.parametrize(("arguments", "variables"), [("validation=True", {}), ("", {"VKSHARE_VALIDATION": "1"})])
def test_the_cpu_backend_is_no_way_round_a_validation_that_is_wanted(
    start: Start, arguments: str, variables: dict[str, str]
) -> None:
    ended = start(arguments, VK_DRIVER_FILES="/nonexistent.json", **variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "UnsupportedError: validation is not supported" in ended.stderr
    assert "backend='cpu'" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [("backend='cpu'", {"VKSHARE_VALIDATION": "1"}), ("", {"VKSHARE_VALIDATION": "1", "VKSHARE_BACKEND": "cpu"})],
)
def test_the_cpu_backend_opens_where_it_is_named_whatever_is_wanted_of_layers(
    start: Start, arguments: str, variables: dict[str, str]
) -> None:
    assert start(arguments, **variables).stdout == "cpu\n"


def test_without_the_layer_a_call_that_wants_none_opens_the_same_adapter(start: Start) -> None:
    expected = start().stdout
    assert expected
    assert start("validation=False", VKSHARE_VALIDATION="1").stdout == expected

"""An engine in C shares an image of its own VkDevice by the layer's C functions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.c_client import compiler
from support.engine_process import LAYER, complaints, layer_variables
from support.tree_paths import ROOT

import vkshare as vks
from vkshare.engines import layer
from vkshare.util import library


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("layer") / "client"
    source = Path(__file__).with_name("layer_client.c")
    headers = [*library.compile_options(), f"-isystem{ROOT / 'native' / 'third_party'}"]
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", *headers, str(source), *library.link_options(), "-ldl"]
    subprocess.run([*compiler(), *options, "-o", str(made)], check=True)
    return made


@pytest.mark.rule("C4", "E10", "E12", "E14")
@pytest.mark.parametrize("validation", ["", "above", "below"])
def test_an_engine_in_c_clears_a_surface_in_its_turn(client: Path, validation: str, vks_adapter: vks.Adapter) -> None:
    if vks_adapter.backend != "vulkan":
        pytest.skip("there are no VkDevices on the CPU backend")
    variables = layer_variables(validation) or {"VK_INSTANCE_LAYERS": LAYER, "VK_ADD_LAYER_PATH": str(layer.folder())}
    if not validation and os.environ.get("VK_LAYER_PATH"):
        variables["VK_LAYER_PATH"] = f"{os.environ['VK_LAYER_PATH']}:{layer.folder()}"
    command = [str(client), f"{layer.folder()}/VkLayer_vkshare_engines.so"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "red"
    assert "outside its turn" in done.stderr
    assert complaints(done.stdout + done.stderr) == []

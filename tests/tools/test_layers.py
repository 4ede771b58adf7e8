"""The layers of the C core depend downwards only, and the check that says so notices what breaks it."""

from __future__ import annotations

import shutil
import subprocess

import layers
import pytest
from results import ROOT

pytestmark = pytest.mark.no_driver

BUILT = layers.built()


@pytest.fixture
def tree(tmp_path):
    """Two layers, of which the lower one is `os`."""
    (tmp_path / "CMakeLists.txt").write_text("foreach(layer os shm)\nendforeach()\n")
    for layer in ("os", "shm"):
        (tmp_path / "native" / layer).mkdir(parents=True)
        (tmp_path / "native" / layer / f"{layer}.h").write_text(f"int vks_{layer}(void);\n")
        (tmp_path / "native" / layer / f"{layer}.c").write_text(f"int vks_{layer}(void) {{ return 0; }}\n")
    return tmp_path


def test_no_layer_includes_a_header_of_a_higher_one():
    assert list(layers.include_edges(ROOT, layers.order())) == []


@pytest.mark.skipif(not BUILT, reason="nothing was built here")
@pytest.mark.skipif(not shutil.which("nm"), reason="there is no nm")
def test_no_layer_calls_a_function_of_a_higher_one():
    assert BUILT is not None
    assert list(layers.object_edges(ROOT, BUILT, layers.order())) == []


def test_every_folder_with_c_files_is_a_layer():
    folders = {path.parent.name for path in (ROOT / "native").glob("*/*.c")}
    assert folders == {*layers.order(), "layer", "tests", "bench"}, "layer is a Vulkan layer, a library of its own"


def test_an_include_that_points_upwards_is_named_with_its_line(tree, capsys):
    (tree / "native" / "os" / "os.c").write_text('\n#include "shm/shm.h"\n')
    assert layers.main(["--root", str(tree)]) == 1
    assert capsys.readouterr().out == ('os -> shm, which is above it: native/os/os.c:2: #include "shm/shm.h"\n')


@pytest.mark.skipif(not (shutil.which("nm") and shutil.which("cc")), reason="there is no compiler")
def test_a_call_that_points_upwards_is_named_with_its_symbol(tree, capsys):
    (tree / "native" / "os" / "os.c").write_text("int vks_shm(void);\nint vks_os(void) { return vks_shm(); }\n")
    for layer in ("os", "shm"):
        built = tree / "build" / "native" / layer
        built.mkdir(parents=True)
        subprocess.run(["cc", "-c", tree / f"native/{layer}/{layer}.c", "-o", built / f"{layer}.c.o"], check=True)
    assert layers.main(["--root", str(tree), "--objects", str(tree / "build")]) == 1
    assert capsys.readouterr().out == "os -> shm, which is above it: native/os/os.c uses vks_shm\n"


def test_a_tree_in_order_is_accepted_in_silence(tree, capsys):
    (tree / "native" / "shm" / "shm.c").write_text('#include "os/os.h"\n')
    assert layers.main(["--root", str(tree)]) == 0
    assert capsys.readouterr().out == ""

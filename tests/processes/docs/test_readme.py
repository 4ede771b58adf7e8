"""The documents: their code runs, their links lead somewhere, and every example is shown in one of them."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.display_servers import wait_for
from support.tree_paths import ROOT

import vkshare.demos

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.wheel]

if TYPE_CHECKING:
    from support.private_displays import XDisplay

DOCUMENTS = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "guide",
            "presentation",
            "vsync",
            "server",
            "compositor",
            "opengl",
            "cuda",
            "interop",
            "platforms",
            "testing",
            "remote",
            "viewing",
            "ray",
            "gpus",
        )
    ),
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(document: str, language: str = "python") -> list[str]:
    """The fenced blocks of that language."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def command_of(program: Path) -> list[str]:
    # -I: a block must not depend on where it is started. Warnings of objects that were not closed count as errors.
    return [sys.executable, "-I", "-W", "error::ResourceWarning", str(program)]


def run(program: Path) -> str:
    done = subprocess.run(command_of(program), capture_output=True, text=True, timeout=100, cwd=program.parent)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "ResourceWarning" not in done.stderr
    return done.stdout


def test_every_example_is_shown_in_a_document() -> None:
    shown = [block for document in DOCUMENTS for block in blocks(document)]
    assert EXAMPLES
    for example in EXAMPLES:
        assert example.read_text() in shown, f"{example.name} is shown nowhere, or not as it is"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pipe", r"frame 0 \[  0   0   0 255\]\n(.*\n){3}frame 4 \[204   0   0 255\]\n"),
        ("hand_over", r"the middle pixel is \[12[5-9]  6[2-6]  6[2-6] 255\]\n"),
        ("owner_dies", r"recovered, generation 2\n"),
        ("pillow_text", r"0 bytes copied\n"),
        (
            "opengl",
            r"the triangle's middle is \[ ?\d+ +\d+ +\d+\] and the rectangle \[255 255   0\]\n|no OpenGL here: .+\n",
        ),
        (
            "two_gpus",
            r"'.+' draws the left half, '.+' the right one\n[\d.]+ ms a frame, [\d,]+ bytes copied\n|only one .+\n",
        ),
        ("cuda_torch", r"the middle pixel is \[204 153   0 255\]\n|not here: .+ is not supported: .+\n"),
    ],
)
def test_an_example_does_what_it_says(name: str, expected: str) -> None:
    needs = {"pillow_text": "PIL", "opengl": "moderngl", "cuda_torch": "torch"}
    if name in needs:
        pytest.importorskip(needs[name])
    assert re.fullmatch(expected, run(ROOT / "examples" / f"{name}.py"))


@pytest.mark.full
def test_the_wall_of_rays_actors_goes_on_without_the_renderer_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray (vkshare[ray])")
    command = [*command_of(ROOT / "examples" / "ray_wall.py"), "--renderers", "2", "--seconds", "1"]
    with tempfile.TemporaryDirectory(prefix="vks-ray-") as folder:  # short: sockets are in it
        environment = {**os.environ, "RAY_TMPDIR": folder, "VKSHARE_VALIDATION": "0"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"2 renderers: \d+\.\d pictures a second\n"
        r"a renderer was killed, and another takes its place\n"
        r"the wall after that: "
        r"\[\[255, 0, 0, 255\], \[0, 255, 0, 255\], \[0, 0, 255, 255\], \[255, 255, 255, 255\]\]\n",
        done.stdout,
    )


def test_the_window_example_shows_a_triangle_until_somebody_closes_it(x11: XDisplay) -> None:
    pytest.importorskip("PIL")
    from support.demo_runs import shown

    def is_triangle(pixels: Any) -> bool:
        height, width = pixels.shape[:2]
        middle, top = pixels[height // 2, width // 2, :3].astype(int), pixels[height // 10 + 4, width // 2, :3]
        return height == 300 and abs(middle - (127, 64, 64)).max() <= 3 and top[0] > 200 and not pixels[0, 0, :3].any()

    with shown(x11, "triangle", command_of(ROOT / "examples" / "window.py")) as started:
        x11.resize(started.window, 500, 300)
        wait_for(lambda: is_triangle(x11.picture(started.window)), "a triangle in the whole window", 20)
        x11.ask_to_close(started.window)
        assert started.end() == (0, [])


def test_the_compositors_client_is_shown_by_vkshare_serve(tmp_path: Path) -> None:
    environment = {**os.environ, "VKSHARE_SERVER": str(tmp_path / "socket")}
    command = [sys.executable, "-m", "vkshare", "serve", "--headless", "--json", "--statistics", "0.1"]
    client = command_of(ROOT / "examples" / "compositor_client.py")
    with contextlib.ExitStack() as stack:
        serve = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        stack.callback(serve.kill)
        assert serve.stdout is not None
        assert json.loads(serve.stdout.readline()) == {"path": str(tmp_path / "socket")}
        shown = stack.enter_context(
            subprocess.Popen(client, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        stack.callback(shown.kill)
        reported = (json.loads(line) for line in serve.stdout)
        assert any(each["title"] == "pulse" and each["shown"] for one in reported for each in one["windows"])
        serve.terminate()
        out, err = shown.communicate(timeout=30)
        assert out == "the compositor has ended\n", err
        assert "Traceback" not in err
        assert "ResourceWarning" not in err
        assert (shown.returncode, serve.wait(30)) == (0, 0)


def test_no_example_is_left_out_of_these_tests() -> None:
    tested = {"compositor_client", "cuda_torch", "hand_over", "opengl", "owner_dies", "pillow_text", "pipe", "window"}
    tested |= {"ray_wall", "two_gpus"}
    assert {example.stem for example in EXAMPLES} == tested


@pytest.mark.parametrize(
    "document",
    [pytest.param(each, marks=pytest.mark.full if each == "docs/ray.md" else ()) for each in DOCUMENTS if blocks(each)],
)
def test_the_other_blocks_of_a_document_run_as_one_program(document: str, tmp_path: Path) -> None:
    shown_elsewhere = {example.read_text() for example in EXAMPLES}
    program = tmp_path / "program.py"
    program.write_text("\n".join(block for block in blocks(document) if block not in shown_elsewhere))
    compile(program.read_text(), document, "exec")
    if document == "docs/cuda.md":
        needs_cuda()
    if document == "docs/ray.md":
        pytest.importorskip("ray", reason="needs Ray (vkshare[ray])")
    run(program)


def needs_cuda() -> None:
    """Skips where PyTorch has no GPU, or vkshare no CUDA."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    try:
        vkshare.interop.cuda.driver.bindings()
    except vkshare.UnsupportedError as error:
        pytest.skip(str(error))


def test_the_guides_test_passes_as_a_test(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("docs/guide.md") if "def test_" in block)
    (tmp_path / "test_guide.py").write_text(block)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"[1-9]\d* passed", done.stdout)


def test_the_tests_of_the_testing_page_pass(tmp_path: Path) -> None:
    shown, *others = blocks("docs/testing.md")
    folder = ROOT / "examples" / "testing"
    assert shown == (folder / "test_pictures.py").read_text()
    shutil.copytree(folder / "goldens", tmp_path / "goldens")
    for number, block in enumerate((shown, *others)):
        (tmp_path / f"test_{number}.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        # The wheel is tested in a tree without the C sources.
        if "://" not in target and ((ROOT / "native" / "device").is_dir() or "native/" not in target):
            assert (ROOT / document).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tests_that_a_document_names_exist(document: str) -> None:
    """`::name` is a function of the file that is named last before it, by a link or, once linked, by its name alone."""
    named: dict[str, Path] = {}
    source = ""
    for target, file, function in re.findall(
        r"\]\(([^)#]+\.py)\)|\b(\w+\.py)\b|`::(\w+)`", (ROOT / document).read_text()
    ):
        if target:
            named[Path(target).name] = (ROOT / document).parent / target
        if target or file in named:
            source = named[file or Path(target).name].read_text()
        if function:
            assert f"\ndef {function}(" in source, f"{document} names {function}, which is not in that file"


def test_the_table_of_parties_has_every_pair_that_is_tested() -> None:
    pairs = ast.parse((ROOT / "tests/rules/interop/test_pairs.py").read_text())
    parties = next(
        ast.literal_eval(each.value)
        for each in pairs.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PARTIES"
    )
    lines = (ROOT / "docs/interop.md").read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| from"))
    head, _, *rows = ([cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines[start : start + 9])
    assert tuple(head[1:]) == tuple(row[0] for row in rows) == parties
    explained = set(re.findall(r"^\| ([A-Z-])[,| ]", "\n".join(lines), re.MULTILINE))
    for row in rows:
        assert len(row) == len(parties) + 1
        assert all(cell and set(cell.split()) <= explained for cell in row[1:])


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = {
        name for block in blocks("README.md", "sh") for name in re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)
    }
    makefile = (ROOT / "Makefile").read_text()
    assert targets >= {"demo", "test"}
    targets |= set(re.findall(r"`make ([a-z-]+)`", "".join((ROOT / document).read_text() for document in DOCUMENTS)))
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_pictures_are_small() -> None:
    assert 0 < (ROOT / "docs/images/demo.png").stat().st_size < 300 * 1024
    assert 0 < (ROOT / "docs/images/desktop.png").stat().st_size < 200 * 1024
    assert 0 < (ROOT / "docs/images/engines.png").stat().st_size < 300 * 1024
    assert 0 < (ROOT / "docs/images/presentation.svg").stat().st_size < 250 * 1024
    assert 0 < Path(vkshare.demos.__file__).with_name("assets").joinpath("picture.png").stat().st_size < 60 * 1024

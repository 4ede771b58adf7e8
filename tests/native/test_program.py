"""_native.CommandList and _native.Program."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest
from support.native import (
    HEIGHT,
    RGBA8,
    WIDTH,
    Device,
    List,
    Surface,
    make_surface,
)

from vkshare import _native, errors


def test_a_list_keeps_its_surfaces_until_it_is_reset(device: Device) -> None:
    surface = make_surface(device)
    commands = List(surface)
    commands._compile()
    commands.target = None  # type: ignore[assignment]
    alive = weakref.ref(surface)
    del surface
    assert alive() is not None
    commands._reset()
    assert alive() is None


def test_set_program_checks_what_it_is_given(device: Device, surface: Surface) -> None:
    commands = _native.CommandList(device)
    program = _native.Program()
    slot = program.image(WIDTH, HEIGHT, RGBA8)
    for arguments, error, text in (
        ((object(), [], []), TypeError, "program must be a Program"),
        ((program, 1, []), TypeError, "uses must be"),
        ((program, [surface], []), TypeError, "uses must be"),
        ((program, [(surface, True, 1)], []), TypeError, "uses must be"),
        ((program, [(1, True)], []), TypeError, "uses must be"),
        ((program, [(surface, True), (surface, False)], []), ValueError, "uses names .* twice"),
        ((program, [(surface, True)], 1), TypeError, "slots must be"),
        ((program, [(surface, True)], [1]), ValueError, "slots is 1, allowed is 0 to 0"),
        ((program, [(surface, True)], [-1]), ValueError, "slots is -1"),
        ((_native.Program.__new__(_native.Program), [], []), errors.InvalidCallError, "never initialised"),
    ):
        with pytest.raises(error, match=text):
            commands._set_program(*arguments)
    commands._set_program(program, [(surface, True)], [slot])
    with pytest.raises(errors.InvalidCallError, match=r"reset\(\) it first"):
        commands._set_program(_native.Program(), [], [])
    with pytest.raises(errors.InvalidCallError, match="taken over"):
        program.clear(slot, (0, 0, 0, 0))
    commands._reset()
    with pytest.raises(errors.InvalidCallError, match="taken over"):
        commands._set_program(program, [], [])


def test_set_program_refuses_surfaces_of_another_device_and_keeps_the_program(device: Device, surface: Surface) -> None:
    other = Device()
    commands = _native.CommandList(other)
    program = _native.Program()
    slot = program.image(WIDTH, HEIGHT, RGBA8)
    with pytest.raises(errors.DeviceMismatchError):
        commands._set_program(program, [(surface, True)], [slot])
    program.clear(slot, (0, 0, 0, 0))
    other._shutdown()


def test_set_vulkan_checks_what_it_is_given(device: Device) -> None:
    commands = _native.CommandList(device)
    for arguments, error, text in (
        ((0, [], print), ValueError, "command_buffer is NULL"),
        ((1.5, [], print), TypeError, "command_buffer must be an integer"),
        ((1, [], None), TypeError, "retire must be a callable"),
        ((1, None, print), TypeError, "uses must be"),
    ):
        with pytest.raises(error, match=text):
            commands._set_vulkan(*arguments)
    retire = lambda: None  # noqa: E731
    before = sys.getrefcount(retire)
    with pytest.raises(errors.VkshareError):  # the CPU backend runs programs
        commands._set_vulkan(1, [], retire)
    assert sys.getrefcount(retire) == before
    assert not commands._is_compiled


def test_every_program_operation_is_recorded_and_runs(device: Device) -> None:
    target, source = make_surface(device), make_surface(device)
    program = _native.Program()
    a, b = program.image(WIDTH, HEIGHT, RGBA8), program.image(WIDTH, HEIGHT, RGBA8)
    program.clear(a, (0, 0, 0, 1))
    program.clear(slot=b, colour=[0, 1, 0, 1])
    program.fill_rect(a, 0, 0, 2, 2, (1, 0, 0, 1))
    program.copy(b, 0, 0, 1, 1, a, 4, 0)
    program.blit(b, (0, 0, 1, 1), a, (5, 0, 6, 1), False)
    program.composite(b, a, 6, 0, 1.0)
    vertices = memoryview(bytearray(3 * 8 * 4)).cast("B").cast("f", (3, 8))
    for row, (x, y) in enumerate(((-1, -1), (3, -1), (-1, 3))):
        for column, value in enumerate((x, y, 0, 1, 0, 0, 1, 1)):
            vertices[row, column] = value
    commands = _native.CommandList(device)
    commands._set_program(program, [(target, True), (source, True)], [a, b])
    target.acquire()
    source.acquire()
    device.submit(commands).wait(5)
    target._cpu_access(5)
    assert target.memory[0:4] == bytes((255, 0, 0, 255))
    for x in (4, 5, 6):
        assert target.memory[4 * x : 4 * x + 4] == bytes((0, 255, 0, 255))
    drawn, program = _native.CommandList(device), _native.Program()
    program.draw_triangles(program.image(WIDTH, HEIGHT, RGBA8), vertices, 4, -1, -1, False, 8)
    drawn._set_program(program, [(target, True)], [0])
    device.submit(drawn).wait(5)
    assert target.memory[:] == bytes((0, 0, 255, 255)) * (WIDTH * HEIGHT)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "text"),
    [
        ("image", (0, 1, RGBA8), ValueError, "Program.image"),
        ("image", (1, 1, 99), ValueError, "Program.image"),
        ("image", (-1, 1, RGBA8), ValueError, "width is -1"),
        ("image", ("1", 1, RGBA8), TypeError, "width must be an integer"),
        ("clear", (7, (0, 0, 0, 0)), ValueError, "Program.clear"),
        ("clear", (0, (0, 0, 0)), TypeError, "colour must be a sequence of four"),
        ("clear", (0, "abcd"), TypeError, "colour must be a number"),
        ("clear", (0, 1), TypeError, "colour must be a sequence of four"),
        ("fill_rect", (0, 0, 0, 2**31, 1, (0, 0, 0, 0)), ValueError, "width is 2147483648"),
        ("fill_rect", (0, 0.5, 0, 1, 1, (0, 0, 0, 0)), TypeError, "x must be an integer"),
        ("copy", (0, 0, 0, 1, 1, 0, 0, 0), ValueError, "Program.copy"),
        ("copy", (0, 0, 0, 1, 1, 1, 0), TypeError, "missing the required argument 'y'"),
        ("blit", (0, (0, 0, 1), 1, (0, 0, 1, 1), False), TypeError, "source_rect must be"),
        ("composite", (0, 1, 0, 0, float("nan")), ValueError, "Program.composite"),
        ("composite", (0, 1, 0, 0, "1"), TypeError, "opacity must be a number"),
        ("draw_triangles", (0, b"1234", -1, -1, -1, False, 8), ValueError, "vertices must be"),
        ("draw_triangles", (0, None, -1, -1, -1, False, 8), TypeError, "vertices must be"),
        ("draw_triangles", (0, memoryview(bytes(12)).cast("f", (1, 3)), -1, -1, -1, False, 8), ValueError, "K >= 4"),
        (
            "draw_triangles",
            (0, memoryview(bytes(24)).cast("f", (1, 6)), 3, -1, -1, False, 8),
            ValueError,
            "colour_offset is 3",
        ),
        (
            "draw_triangles",
            (0, memoryview(bytes(24)).cast("f", (1, 6)), -1, 5, -1, False, 8),
            ValueError,
            "uv_offset is 5",
        ),
        (
            "draw_triangles",
            (0, memoryview(bytes(16)).cast("f", (1, 4)), -1, -1, -1, False, 9),
            ValueError,
            "subpixel_bits is 9",
        ),
        (
            "draw_triangles",
            (0, memoryview(bytes(16)).cast("f", (1, 4)), -1, -1, 1, False, 8),
            ValueError,
            "Program.draw",
        ),
        ("draw_triangles", (0, memoryview(bytes(32)).cast("d", (1, 4)), -1, -1, -1, False, 8), ValueError, "float32"),
    ],
)
def test_bad_program_operations_are_refused(
    name: str, arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    program = _native.Program()
    program.image(WIDTH, HEIGHT, RGBA8)
    program.image(WIDTH, HEIGHT, RGBA8)
    with pytest.raises(error, match=text):
        getattr(program, name)(*arguments)


def test_an_argument_that_gives_the_program_away_is_caught(device: Device, surface: Surface) -> None:
    program, commands = _native.Program(), _native.CommandList(device)
    slot = program.image(WIDTH, HEIGHT, RGBA8)

    class Gives:
        def __index__(self) -> int:
            commands._set_program(program, [(surface, True)], [slot])
            return 0

    with pytest.raises(errors.InvalidCallError, match="taken over"):
        program.clear(Gives(), (0, 0, 0, 0))

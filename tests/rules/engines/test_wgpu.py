"""Surfaces as textures of stock wgpu: in turns with another VkDevice, with what the others wrote."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import numpy as np
import pytest
from support.engine_process import run_with_layer
from support.run_volumes import LONG, rounds, unhurried
from support.wgpu_engine import Engine, attachment, die_as_owner, draw_as_owner, pair, peer, peer_process, pixels_of

import vkshare as vks
from vkshare.engines import layer

pytestmark = unhurried


@pytest.fixture(autouse=True)
def _needs_wgpu(vks_adapter: vks.Adapter) -> None:
    pytest.importorskip("wgpu", reason="wgpu is not installed (vkshare[engines])")
    if vks_adapter.backend != "vulkan":
        pytest.skip("wgpu has no device on the CPU backend")


def keyed_turns(turns: int) -> int:
    seed = int.from_bytes(os.urandom(4), "little")
    with pair(64, 48, "rgba8unorm") as (engine, near, texture, far):
        for turn in range(turns):
            ours, theirs = pixels_of(near, seed, 2 * turn), pixels_of(near, seed, 2 * turn + 1)
            with near.access(0, 1, 60):
                engine.write(texture, ours)
            with far.access(1, 2, 60):
                assert (far.read() == ours).all(), f"seed {seed}, turn {turn}: wgpu's pixels did not arrive"
                far.write(theirs)
            with near.access(2, 0, 60):
                if turn % 2:
                    assert (engine.read(texture, theirs) == theirs).all(), f"seed {seed}, turn {turn}: copied"
                else:
                    assert (engine.sampled(texture) == theirs).all(), f"seed {seed}, turn {turn}: sampled"
        assert near.statistics().copied_bytes == 0
        return layer.misuses()


@pytest.mark.rule("E11", "E12", "E13")
def test_turns_with_another_vkdevice_are_byte_equal_both_ways() -> None:
    assert run_with_layer(keyed_turns, rounds(10_000, 300, full=10_000), timeout=LONG) == 0


@pytest.mark.rule("E10", "E13", "E14")
@pytest.mark.parametrize("validation", ["above", pytest.param("below", marks=pytest.mark.full)])
def test_the_validation_layer_is_silent_above_and_below(validation: str) -> None:
    assert run_with_layer(keyed_turns, rounds(10_000, 20, full=1000), validation=validation, timeout=LONG) == 0
    run_with_layer(all_commands, validation=validation)
    run_with_layer(ends_in_each_order, 6, validation=validation)


def turns_with_a_process(turns: int) -> int:
    seed = int.from_bytes(os.urandom(4), "little")
    engine = Engine()
    with engine.device, engine.device.create_surface(64, 48, "rgba8unorm") as surface:
        texture = engine.texture(surface)
        with surface.export() as descriptor, peer_process(peer, descriptor, engine.device.adapter.uuid, turns, seed):
            for turn in range(turns):
                with surface.access(0, 1, 60):
                    if turn:
                        theirs = pixels_of(surface, seed, 2 * turn - 1)
                        assert (engine.read(texture, theirs) == theirs).all(), f"seed {seed}, turn {turn}"
                    engine.write(texture, pixels_of(surface, seed, 2 * turn))
    return layer.misuses()


@pytest.mark.rule("E11", "E12", "E13")
def test_turns_with_another_process_are_byte_equal_both_ways() -> None:
    assert run_with_layer(turns_with_a_process, rounds(10_000, 200, full=1000), timeout=LONG) == 0


def first_use(format: str, usage: tuple[str, ...], way: str) -> None:
    with pair(40, 24, format, usage=usage) as (engine, near, _, far):
        shape, dtype = (24, 40, vks.formats.get(format).channels), vks.formats.get(format).dtype
        pixels = np.random.default_rng(1).integers(0, 120, shape).astype(dtype)
        with far.access(0, 1, 60):
            far.write(pixels)
        with near.access(1, 2, 60):
            texture = engine.texture(near)  # a second one, of a surface whose contents matter
            if way == "load":
                encoder = engine.raw.create_command_encoder()
                encoder.begin_render_pass(color_attachments=[attachment(texture)]).end()
                engine.raw.queue.submit([encoder.finish()])
            elif "copy" in usage:
                wide = np.zeros((24, 64, *shape[2:]), dtype)  # rows of a multiple of 256 bytes
                assert (engine.read(texture, wide[:, :40]) == pixels).all()
        with far.access(2, 0, 60):
            assert (far.read() == pixels).all()


@pytest.mark.rule("E13")
@pytest.mark.parametrize(
    ("format", "usage", "way"),
    [
        ("rgba8unorm", ("render", "sample", "copy"), "read"),
        ("rgba8unorm", ("render",), "load"),
        ("rgba8unorm", ("copy",), "read"),
        ("rgba8unorm-srgb", ("render", "sample"), "load"),
        ("bgra8unorm", ("render", "copy"), "read"),
        ("rgba16float", ("render", "copy"), "load"),
        ("r32float", ("copy", "sample"), "read"),
    ],
)
def test_the_first_use_of_a_texture_keeps_what_another_party_wrote(
    format: str, usage: tuple[str, ...], way: str
) -> None:
    run_with_layer(first_use, format, usage, way)


def all_commands() -> None:
    """wgpu's clears, copies in all directions, loads, samples and storage, each on a surface with known contents."""
    usage = ("render", "sample", "copy", "storage")
    with pair(64, 48, "rgba8unorm", usage=usage, tiling="optimal") as (engine, near, texture, far):
        pixels = np.random.default_rng(2).integers(0, 256, (48, 64, 4), np.uint8)
        flags, raw = engine.wgpu.TextureUsage, engine.raw
        own = raw.create_texture(size=(64, 48, 1), format="rgba8unorm", usage=flags.COPY_SRC | flags.COPY_DST)
        engine.write(own, pixels)
        whole, of_own = {"texture": texture}, {"texture": own}
        with near.access(0, 1, 60):
            encoder = raw.create_command_encoder()
            encoder.copy_texture_to_texture(of_own, whole, (64, 48, 1))
            encoder.begin_render_pass(color_attachments=[attachment(texture)]).end()
            raw.queue.submit([encoder.finish()])
            assert (engine.sampled(texture) == pixels).all()
            assert (near.read() == pixels).all()  # vkshare's own commands, in the same turn
            inverted(engine, texture)
        with far.access(1, 2, 60):
            assert (far.read() == 255 - pixels).all()
            far.write(pixels)
        with near.access(2, 3, 60):
            encoder = raw.create_command_encoder()
            encoder.copy_texture_to_texture(whole, of_own, (64, 48, 1))
            raw.queue.submit([encoder.finish()])
            assert (engine.read(own, pixels) == pixels).all()
            engine.clear(texture, (0, 1, 0, 1))
        with far.access(3, 0, 60):
            assert (far.read() == (0, 255, 0, 255)).all()


def inverted(engine: Engine, texture: Any) -> None:
    """A compute shader reads one texture, and writes the surface's as a storage texture."""
    code = """
    @group(0) @binding(0) var before: texture_2d<f32>;
    @group(0) @binding(1) var after: texture_storage_2d<rgba8unorm, write>;
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) at: vec3u) {
        textureStore(after, vec2i(at.xy), vec4f(1.0) - textureLoad(before, vec2i(at.xy), 0));
    }"""
    raw, flags = engine.raw, engine.wgpu.TextureUsage
    copy = raw.create_texture(size=texture.size, format="rgba8unorm", usage=flags.COPY_DST | flags.TEXTURE_BINDING)
    pipeline = raw.create_compute_pipeline(
        layout="auto", compute={"module": raw.create_shader_module(code=code), "entry_point": "main"}
    )
    views = [{"binding": n, "resource": each.create_view()} for n, each in enumerate((copy, texture))]
    bindings = raw.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=views)
    encoder = raw.create_command_encoder()
    encoder.copy_texture_to_texture({"texture": texture}, {"texture": copy}, texture.size)
    computed = encoder.begin_compute_pass()
    computed.set_pipeline(pipeline)
    computed.set_bind_group(0, bindings)
    computed.dispatch_workgroups(*texture.size)
    computed.end()
    raw.queue.submit([encoder.finish()])


@pytest.mark.rule("E11", "E13")
def test_every_kind_of_command_of_wgpu_sees_the_surface_and_leaves_it_for_the_others() -> None:
    run_with_layer(all_commands)


# ---- ends ------------------------------------------------------------------------------------------------------------


def ends_in_each_order(orders: int) -> None:
    import itertools

    every = list(itertools.permutations(("texture", "surface", "far", "device", "engine")))
    for order in every[:: max(1, len(every) // orders)]:
        engine = Engine()
        other = vks.open(engine.device.adapter)
        far = other.create_surface(64, 48)
        with far.export() as descriptor:
            surface = engine.device.open_surface(descriptor)
        things: dict[str, Any] = {"texture": engine.texture(surface), "raw": engine.raw, "device": engine.device}
        with surface.access(0, 0, 60):
            engine.clear(things["texture"], (1, 0, 0, 1))
        del engine
        for end in order:
            if end == "texture":
                things["texture"].destroy()
                del things["texture"]
            elif end == "surface":
                surface.close()
            elif end == "far":
                far.close()
            elif end == "device":
                things["device"].close()
            else:
                things["raw"].destroy()
                del things["raw"]
            if "raw" in things:  # work goes on, with the texture where that is alive
                encoder = things["raw"].create_command_encoder()
                if "texture" in things:
                    attached = [attachment(things["texture"], clear=(0, 0, 1, 1))]
                    encoder.begin_render_pass(color_attachments=attached).end()
                things["raw"].queue.submit([encoder.finish()])
        other.close()


@pytest.mark.rule("E14")
def test_texture_surface_devices_and_engine_end_in_any_order() -> None:
    run_with_layer(ends_in_each_order, rounds(120, 12, full=120), timeout=200)


def many_textures(count: int) -> tuple[int, int]:
    def open_fds() -> int:
        return len(os.listdir("/proc/self/fd"))

    engine = Engine()
    with engine.device:
        seen = []
        for number in range(count):
            with engine.device.create_surface(64, 48) as surface, surface.access():
                texture = engine.texture(surface)
                engine.clear(texture, (1, 1, 1, 1))
            del texture
            engine.raw.queue.submit([])
            if number in (count // 2, count - 1):
                engine.device.wait_idle(10)
                seen.append(open_fds())
        return seen[0], seen[1]


@pytest.mark.rule("E14")
def test_textures_that_are_made_and_dropped_leave_no_fd() -> None:
    half, all_of_them = run_with_layer(many_textures, 200)
    assert all_of_them <= half + 2


def owner_is_killed() -> str:
    engine = Engine()
    with engine.device, engine.device.create_surface(64, 48) as surface:
        texture = engine.texture(surface)
        with surface.export() as descriptor, peer_process(die_as_owner, descriptor, engine.device.adapter.uuid):
            pass
        try:
            surface.acquire(0, 10)
        except vks.AbandonedError:
            engine.clear(texture, (1, 0, 0, 1))  # outside a turn: reported, and nothing waits
            surface.recover(10)
            engine.clear(texture, (0, 1, 0, 1))
            surface.release(0)
            with surface.access(0, 0, 10):
                return str(surface.read()[0, 0].tolist())
        return "the death was not noticed"


def engine_is_killed() -> float:
    spawn = multiprocessing.get_context("spawn")
    with vks.open(backend="vulkan") as device, device.create_surface(64, 48) as surface:
        drawn = spawn.Event()
        with surface.export() as descriptor:
            process = spawn.Process(target=draw_as_owner, args=(descriptor, drawn))
            process.start()
            assert drawn.wait(60)
        killed = time.monotonic()
        process.kill()
        with pytest.raises(vks.AbandonedError):
            surface.acquire(0, 10)
        late = time.monotonic() - killed
        process.join(10)
        surface.recover(10)
        device.submit(device.record().clear(surface, (0, 1, 0, 1)))
        assert surface.read()[0, 0].tolist() == [0, 255, 0, 255]
        return late


@pytest.mark.rule("E14")
def test_the_others_notice_within_a_moment_that_an_engines_process_was_killed_in_its_turn() -> None:
    # The machine may be busy with something else, but not each time.
    assert any(run_with_layer(engine_is_killed) < 0.2 for _ in range(5))


@pytest.mark.rule("E14")
def test_an_engine_goes_on_after_an_owner_was_killed() -> None:
    assert run_with_layer(owner_is_killed) == "[0, 255, 0, 255]"

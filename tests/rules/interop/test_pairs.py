"""docs/interop.md's table: every pair of parties hands whole pictures over, both ways, and no hand-over copies any."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import api_turns
from support.linear_surfaces import linear
from support.opengl_context import needs_opengl
from support.run_volumes import rounds, seeded

import vkshare as vks
from vkshare.errors import UnsupportedError

pytest_plugins = ["support.adopted_devices", "support.opengl_context", "support.peer_processes"]
pytestmark = pytest.mark.driver_dependent

# As docs/interop.md names them.
PARTIES = ("same device", "another device", "another process", "CPU view", "CUDA", "OpenGL", "engine")
Turn = Callable[[int, int, np.ndarray[Any, Any]], np.ndarray[Any, Any]]


class Parties:
    """Makes parties of one surface, each with a handle of its own. All is closed before the engine's device is."""

    def __init__(self, request: pytest.FixtureRequest, device: vks.Device, owned: ExitStack) -> None:
        self.request = request
        self.device = device
        self._owned = owned
        self.handles: list[vks.Surface] = []  # of this process

    def surface(self, *names: str) -> vks.Surface:
        """Such as all of these parties can open."""
        if "CPU view" in names:
            return linear(self.device, width=61, height=17)
        return self.device.create_surface(61, 17)

    def join(self, name: str, surface: vks.Surface) -> Turn:
        """A party's turn, as turn(acquire, release, pixels). Skips where there is no such party."""
        if name == "another process":
            peer = self.request.getfixturevalue("peers")()
            return partial(peer.run, api_turns.by_commands, self._opened(peer.device, surface))
        if name in ("another device", "engine"):
            fixture = self.request.getfixturevalue("engine" if name == "engine" else "vks_open")
            device = self._owned.enter_context(fixture.adopt() if name == "engine" else fixture())
            handle = self._opened(device, surface)
        else:
            handle = self.device.open_surface(surface)
        self.handles.append(self._owned.enter_context(handle))
        return partial(self._way(name), handle)

    def _opened(self, device: Any, surface: vks.Surface) -> Any:
        with surface.export() as descriptor:
            return device.open_surface(descriptor)

    def _way(self, name: str) -> Callable[..., Any]:
        if name == "CPU view":
            return api_turns.by_the_cpu
        if name == "OpenGL":
            return api_turns.by_opengl
        return api_turns.by_cuda if name == "CUDA" else api_turns.by_commands


@pytest.mark.rule("I1", "I3", "I6")
@pytest.mark.parametrize(
    ("one", "other"),
    list(itertools.combinations_with_replacement(PARTIES, 2)),
    ids=lambda name: name.replace(" ", "_"),
)
def test_a_pair_hands_whole_pictures_over_both_ways(
    request: pytest.FixtureRequest, device: vks.Device, one: str, other: str
) -> None:
    if "CUDA" in (one, other):
        if device.adapter.kind != "gpu":
            pytest.skip("there is no CUDA without a GPU: test_cuda_refusals.py")
        try:
            vks.interop.cuda.driver.bindings()
        except UnsupportedError as error:
            pytest.skip(str(error))
    if "OpenGL" in (one, other):
        needs_opengl(device)
        if device.adapter.kind == "gpu" and "CPU view" in (one, other):
            pytest.skip("NVIDIA's OpenGL opens no linear surfaces, and a CPU view is of none else")
        request.getfixturevalue("context")
    with ExitStack() as owned:
        parties = Parties(request, device, owned)
        surface = owned.enter_context(parties.surface(one, other))
        first, second = parties.join(one, surface), parties.join(other, surface)
        random = np.random.default_rng(seeded().getrandbits(32))
        before: Any = np.zeros(surface.shape, np.uint8)
        for turn in range(rounds(500, 3)):
            for step, go in enumerate((first, second)):
                pixels = random.integers(0, 256, surface.shape, np.uint8)
                key = 2 * turn + step
                assert (go(key, key + 1, pixels) == before).all(), "it found what the one before had left"
                before = pixels
        assert [handle.statistics().copied_bytes for handle in parties.handles] == [0] * len(parties.handles)

"""Processes that share queues, pipes and surfaces are killed one after the other, at any moment, and replaced.

VKSHARE_KILLS=n sets how many of each; VKSHARE_SOAK=1 the volume that the rules name. In a build with
VKSHARE_KILL_POINTS every other victim dies at a numbered point inside the core.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support import access_patterns, kill_storms, killed_peers, queue_ends
from support.peer_processes import Peer
from support.run_volumes import seeded, unhurried
from support.shared_handles import opened

import vkshare as vks
from vkshare import _native
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError

pytest_plugins = ["support.peer_processes"]

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    pytest.mark.timeout(14_000) if "VKSHARE_KILLS" in os.environ else unhurried,
    pytest.mark.slow,
    pytest.mark.program,
    pytest.mark.every_driver,  # in `make test-full`
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]

HAS_POINTS = b"VKS_KILL_AFTER" in Path(_native.__file__).read_bytes()
LAST_POINT = 23


@pytest.fixture
def dice() -> Random:
    return seeded()


@pytest.fixture
def victim(peers: Peers, dice: Random) -> Iterator[Callable[[], Peer]]:
    """Gives the next one, and sees the one before off."""
    before: list[Peer] = []

    def next_one() -> Peer:
        for peer in before:
            peer.end()
        before.clear()
        peer = peers(validation=False)
        point = dice.choice([dice.randint(1, LAST_POINT), dice.randint(20, LAST_POINT), 0, 0]) if HAS_POINTS else 0
        peer.run(killed_peers.arm, point, dice.randint(1, 40))
        before.append(peer)
        return peer

    yield next_one
    for peer in before:
        peer.end()


class Loop:
    """The survivor's side of two queues: it makes what a victim views, or views what a victim makes."""

    def __init__(self, device: vks.Device) -> None:
        self.device = device
        self.root = vks.SurfaceQueue(device, 16, 12)
        self.clone = self.root.clone(16)
        self.drawn = self.seen = 0  # the last frames

    def makes(self, victim: Peer, dice: Random) -> float:
        ends = queue_ends.consumer_of(self.clone, victim.device), queue_ends.producer_of(self.root, victim.device)
        with self.root.open_consumer(self.device) as free, self.clone.open_producer(self.device) as out:
            call = victim.later(killed_peers.view, *ends, 0)
            killer = kill_storms.Killer(victim, dice)
            try:
                while True:
                    self._send(free, out)
            except ClosedError:
                late = killer.late()
            kill_storms.check_victim(call)
            if dice.random() < 0.5:  # else it is left to the next one
                free.recover(10)
        return late

    def _send(self, free: vks.Consumer, out: vks.Producer) -> None:
        kept = [surface for surface in free.surfaces if surface.is_owned]
        try:
            surface = kept[0] if kept else free.dequeue(30)[0]
        except AbandonedError:
            free.recover(10)
            return
        self.drawn += 1
        try:
            access_patterns.clear(surface, self.drawn)
            out.enqueue(surface, b"%d" % self.drawn, (True, "gpu")[self.drawn % 2])
        except AbandonedError:  # the victim gave it back with work that never runs
            free.recover(10)

    def views(self, victim: Peer, dice: Random) -> float:
        ends = queue_ends.consumer_of(self.root, victim.device), queue_ends.producer_of(self.clone, victim.device)
        with self.clone.open_consumer(self.device) as seen, self.root.open_producer(self.device) as back:
            call = victim.later(killed_peers.make, *ends, self.drawn)
            killer = kill_storms.Killer(victim, dice)
            try:
                while True:
                    self._look(seen, back)
            except ClosedError:
                late = killer.late()
            kill_storms.check_victim(call)
            self.drawn = max(self.drawn, self.seen) + 100  # the victim may have drawn a few that are not seen yet
            if dice.random() < 0.5:
                seen.recover(10)
        return late

    def _look(self, seen: vks.Consumer, back: vks.Producer) -> None:
        for surface in seen.surfaces:
            if surface.is_owned:
                back.enqueue(surface, wait="gpu")
        try:
            surface, metadata = seen.dequeue(30)
            self.seen = killed_peers.judged(surface, metadata, self.seen)
        except AbandonedError:
            seen.recover(10)

    def close(self) -> None:
        self.clone.close()
        self.root.close()


@pytest.mark.rule("Q27", "Q18")
def test_both_ends_of_a_queue_die_and_each_pair_keeps_its_pixels(
    vks_open: Open, victim: Callable[[], Peer], dice: Random, vks_adapter: vks.Adapter
) -> None:
    def all_lives() -> None:
        with vks_open() as device, contextlib.closing(Loop(device)) as loop:

            def life(number: int) -> float:
                return (loop.makes, loop.views)[number % 2](victim(), dice)

            kill_storms.Storm("ends of a queue", life).rage(kill_storms.lives(vks_adapter.backend))
            kill_storms.check_listing(is_over=False)

    all_lives()
    kill_storms.check_listing(is_over=True)


@pytest.mark.rule("Q27", "Q26")
def test_receivers_of_a_pipe_die_and_are_replaced_and_the_sender_goes_on(
    vks_open: Open, victim: Callable[[], Peer], dice: Random, vks_adapter: vks.Adapter
) -> None:
    def all_lives() -> None:
        with vks_open() as device:
            sender, descriptor = vks.pipe(device, 16, 12, metadata_size=16)
            numbers = itertools.count(1)

            def life(_: int) -> float:
                peer = victim()
                receiver = peer.run(queue_ends.open_receiver, peer.device, descriptor)
                call = peer.later(killed_peers.receive, receiver, 0)
                killer = kill_storms.Killer(peer, dice)
                try:
                    for number in numbers:
                        send(sender, number)
                except ClosedError:
                    late = killer.late()
                kill_storms.check_victim(call)
                return late

            with descriptor, sender:
                kill_storms.Storm("receivers of a pipe", life).rage(kill_storms.lives(vks_adapter.backend))
                kill_storms.check_listing(is_over=False)

    all_lives()
    kill_storms.check_listing(is_over=True)


def send(sender: vks.Sender, number: int) -> None:
    """A frame whose surface has the victim's work on it is not sent where that ends without it."""
    with contextlib.suppress(AbandonedError), sender.frame(b"%d" % number, 30) as frame:
        access_patterns.clear(frame.surface, number)


@pytest.mark.rule("K9", "K27")
def test_owners_of_a_surface_die_and_no_frame_is_torn(
    vks_open: Open, victim: Callable[[], Peer], dice: Random, vks_adapter: vks.Adapter
) -> None:
    def all_lives() -> None:
        with vks_open() as device, device.create_surface(64, 48) as surface:

            def life(number: int) -> float | None:
                peer = victim()
                call = peer.later(killed_peers.own, opened(surface, peer.device), number * 1000)
                killer = kill_storms.Killer(peer, dice)
                reported = take_turns(surface, killer)
                kill_storms.check_victim(call)
                return reported

            kill_storms.Storm("owners of a surface", life).rage(kill_storms.lives(vks_adapter.backend))
            with pytest.raises(AcquireTimeout):  # a look at the page: the places of the dead are free after it
                surface.acquire(7, 0.05)
            kill_storms.check_listing(is_over=False)

    all_lives()
    kill_storms.check_listing(is_over=True)


def take_turns(surface: vks.Surface, killer: kill_storms.Killer) -> float | None:
    """Until the victim is dead: how late that was told; None if it did not own the surface."""
    while True:
        try:
            surface.acquire(1, 0.25)
            pixels: Any = surface.read(30)
            assert (pixels == pixels[0, 0]).all()
            surface.release(0)
        except AcquireTimeout:
            if killer.is_over():
                return None
        except AbandonedError:
            late = killer.late()
            if surface.is_owned:  # the dead owner's work never ran
                with pytest.raises(AbandonedError):
                    surface.release(0)
            surface.recover(30)
            surface.release(0)
            return late

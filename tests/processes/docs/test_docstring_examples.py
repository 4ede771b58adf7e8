"""The sections "Examples" of docstrings: each runs as it stands, on the driver of the run."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import vkshare as vks

PUBLIC = [(name, getattr(vks, name)) for name in sorted(vars(vks)["__all__"]) if callable(getattr(vks, name))]
FINDER = doctest.DocTestFinder(recurse=False)


def examples() -> Iterator[doctest.DocTest]:
    """The examples of the public names and of their members."""
    for name, thing in PUBLIC:
        bases = [each for each in getattr(thing, "__mro__", ()) if each.__module__.startswith("vkshare.")]
        members = [item for base in bases for item in vars(base).items()]
        for full, each in [(name, thing), *((f"{name}.{member}", value) for member, value in members)]:
            if ">>>" in (getattr(each, "__doc__", None) or ""):
                yield from FINDER.find(each, full, globs={})


EXAMPLES = list(examples())


@pytest.fixture
def names(vks_device: vks.Device) -> Iterator[dict[str, Any]]:
    """What the examples use without making it."""
    with ExitStack() as stack:
        sender, descriptor = vks.pipe(vks_device, 64, 48, metadata_size=16)
        yield {
            "vks": vks,
            "device": vks_device,
            "surface": stack.enter_context(vks_device.create_surface(64, 48)),
            "sender": stack.enter_context(sender),
            "receiver": stack.enter_context(vks.open_receiver(vks_device, stack.enter_context(descriptor))),
            "swapchain": stack.enter_context(vks_device.create_swapchain(vks.Headless(64, 48))),
        }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_as_it_stands(example: doctest.DocTest, names: dict[str, Any]) -> None:
    example.globs.update(names)
    printed: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=printed.append, clear_globs=True).failed
    assert failed == 0, "".join(printed)


def test_there_are_the_twenty_that_users_meet_first() -> None:
    assert len(EXAMPLES) >= 20

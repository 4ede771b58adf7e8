"""The desktop demo's pictures by number, at a viewer behind a bad network and on a local device. Rules M2, M9."""

from __future__ import annotations

import threading

import pytest
from support.remote_ends import TOKEN

import vkshare as vks
from vkshare.demos.desktop import equality
from vkshare.testing.link import LinkProxy

pytestmark = pytest.mark.no_driver

FRAMES = 10


@pytest.mark.rule("M2", "M9")
def test_a_viewer_shows_the_pictures_of_eight_clients_as_a_local_run_does(vks_device: vks.Device) -> None:
    with (
        vks.remote.Host("127.0.0.1:0", token=TOKEN) as host,
        LinkProxy(host.address, seed=1, delay=0.02, rate=5e6, loss=0.02) as link,
        vks.remote.Viewer(
            link.address, token=TOKEN, device=vks_device, headless=True, digested=equality.TITLE
        ) as viewer,
    ):
        shown = threading.Thread(target=viewer.run)
        shown.start()
        equality.show(host, FRAMES, settle=0.5)
        viewer.stop()
        shown.join()
        result = equality.compared(
            equality.local_digests(lambda name: vks.open(vks_device.adapter, name=name), FRAMES), viewer.digests()
        )
    assert result.fault == ""
    assert result.equal > FRAMES // 3


def test_digests_that_differ_or_are_out_of_order_are_a_fault() -> None:
    local = ["a", "b", "c", "d"]
    assert equality.compared(local, ["a", "c", "d"]) == equality.Equality(4, 3, 3)
    assert equality.compared(local, ["a", "d", "c"]).fault == "1 of 3 pictures of the viewer differ from a local run's"
    assert equality.compared(local, ["x"]).fault
    assert equality.compared(local, []).fault
    assert not equality.compared(local, local).fault

"""Errors of hosts, of programs without a host or a viewer, and of certificates: they say what to do. Rule M14."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.link_ends import make_certificate
from support.remote_ends import TOKEN

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.remote import addresses
from vkshare.remote.device import open_device

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("M14")]


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "[::1]:0"])
def test_a_device_without_a_viewer_is_refused_with_the_command_to_start(bind: str) -> None:
    try:
        host = vks.remote.Host(bind, token=TOKEN)
    except OSError:
        pytest.skip("this machine has no ::1")
    with host:
        with pytest.raises(TimeoutError) as raised:
            host.open(timeout=0.1)
        assert str(raised.value) == (
            f"no viewer has connected to {host.address} within 0.1 s: start `vkshare viewer {host.address}`"
        )
        with pytest.raises(TimeoutError, match=f"no viewer has connected to the host of {host.path} within 0.1 s"):
            open_device(host.path, timeout=0.1)


@pytest.mark.parametrize("kind", ["no file", "no folder", "a file in place of a folder"])
def test_a_wrong_vkshare_remote_is_named_with_the_command_that_prints_another(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "file").touch()
    path = {"no file": "host", "no folder": "none/host", "a file in place of a folder": "file/host"}[kind]
    monkeypatch.setenv("VKSHARE_REMOTE", os.fspath(tmp_path / path))
    monkeypatch.delenv("VKSHARE_BACKEND", raising=False)
    with pytest.raises(OSError, match="no host listens at") as raised:
        vks.open()
    assert f"{tmp_path / path}, which VKSHARE_REMOTE names: start `vkshare remote`" in str(raised.value)
    assert "render server" not in str(raised.value)


def test_a_window_of_a_local_device_names_the_variable_that_chose_it(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKSHARE_REMOTE", "/nonexistent/host")
    monkeypatch.setenv("VKSHARE_BACKEND", "cpu")
    with pytest.raises(InvalidCallError, match=r"needs a remote device \(unset VKSHARE_BACKEND=cpu"):
        vks_device.create_swapchain(vks.Window(16, 8))
    monkeypatch.delenv("VKSHARE_BACKEND")
    with pytest.raises(InvalidCallError, match=r"needs a remote device \(vks.open\(\) without arguments\)"):
        vks_device.create_swapchain(vks.Window(16, 8))
    monkeypatch.delenv("VKSHARE_REMOTE")
    with (
        vks.remote.Host("127.0.0.1:0", token=TOKEN) as host,
        pytest.raises(InvalidCallError, match=r"needs a remote device \(Host.open\(\)\)"),
    ):
        vks_device.create_swapchain(host.window(16, 8))


def test_a_closed_host_opens_nothing() -> None:
    host = vks.remote.Host("127.0.0.1:0", token=TOKEN)
    host.close()
    with pytest.raises(ClosedError, match="this Host is closed"):
        host.open(timeout=0.1)


def test_arguments_of_another_type_are_named() -> None:
    with pytest.raises(TypeError, match="the address must be a string, not int"):
        vks.remote.Host(5, token=TOKEN)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the address must be a string, not NoneType"):
        vks.remote.Viewer(None, token=TOKEN, headless=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="keepalive must be a number, not str"):
        vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"playout is 3.0; allowed is 0 to 2"):
        vks.remote.Viewer("127.0.0.1:7", token=TOKEN, headless=True, playout=3)


def test_a_certificate_without_its_key_or_its_file_is_named(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "host")
    none = tmp_path / "none.pem"
    with pytest.raises(ValueError, match=f"{certificate} has no private key"):
        vks.remote.Host("127.0.0.1:0", token=TOKEN, certificate=(certificate, certificate))
    for files in ((none, key), (certificate, none)):
        with pytest.raises(FileNotFoundError, match=f"{none}"):
            vks.remote.Host("127.0.0.1:0", token=TOKEN, certificate=files)
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    with vks.remote.Host("127.0.0.1:0", token=TOKEN, certificate=(both, both)) as host, ExitStack() as stack:
        stack.enter_context(vks.remote.Viewer(host.address, token=TOKEN, certificate=both, headless=True))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7000", "127.0.0.1:7000"),
        ("[::1]:7000", "[::1]:7000"),
        ("192.0.2.1:7000", "192.0.2.1:7000"),
        ("0.0.0.0:7000", "this-machine:7000"),
        ("[::]:7000", "this-machine:7000"),
    ],
)
def test_an_address_for_others_has_the_name_of_the_machine_in_place_of_any(
    address: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "this-machine")
    assert addresses.for_others(address) == expected
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert addresses.for_others(address) == expected.replace("this-machine", "THIS-MACHINE")

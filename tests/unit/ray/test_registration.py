"""What register() demands of Ray, whose modules these tests replace. Rule G7."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

import vkshare as vks
from vkshare.ray import registration

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("G7")]

MODULES = ("ray.experimental.rdt.tensor_transport_manager", "ray.experimental.rdt.util")


def manager(methods: dict[str, tuple[str, ...]]) -> type:
    """An abstract class with these methods."""
    body: dict[str, Any] = {}
    for name, parameters in methods.items():
        made: dict[str, Any] = {}
        exec(f"def {name}({', '.join(parameters or ('self',))}): ...", made)
        body[name] = abc.abstractmethod(made[name])
    return abc.ABCMeta("TensorTransportManager", (), body)


class Ray:
    """A Ray of another version, and what was registered with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, methods: dict[str, tuple[str, ...]]) -> None:
        self.registered: list[str] = []
        self.module: Any = cast(Any, ModuleType("ray"))
        self.module.__version__ = "9.9.9"
        self.module.experimental = SimpleNamespace(register_tensor_transport=self.register())
        self.first: Any = cast(Any, ModuleType(MODULES[0]))
        self.first.TensorTransportManager = manager(methods)
        self.second: Any = cast(Any, ModuleType(MODULES[1]))
        self.second.transport_manager_info = {}
        transport: Any = cast(Any, ModuleType("vkshare.ray.transport"))
        transport.SurfaceTransport = object
        names = ("ray", *MODULES, "vkshare.ray.transport")
        for name, module in zip(names, (self.module, self.first, self.second, transport), strict=True):
            monkeypatch.setitem(sys.modules, name, module)

    def register(self) -> Callable[..., None]:
        def register_tensor_transport(
            transport_name: str, devices: Any, transport_manager_class: Any, data_type: Any
        ) -> None:
            self.registered.append(transport_name)
            self.second.transport_manager_info[transport_name.upper()] = data_type

        return register_tensor_transport


def test_a_version_with_the_same_interface_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, registration._METHODS)
    vks.ray.register()
    vks.ray.register()
    assert ray.registered == ["vkshare"]
    assert ray.second.transport_manager_info == {"VKSHARE": vks.Surface}


def refused() -> str:
    with pytest.raises(vks.UnsupportedError) as raised:
        vks.ray.register()
    text = str(raised.value)
    assert "Ray 9.9.9" in text
    assert f"use Ray {' or '.join(registration.KNOWN_VERSIONS)}" in text
    return text


def test_a_version_with_another_method_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Ray(monkeypatch, {**registration._METHODS, "pin_memory": ("self",)})
    assert "pin_memory" in refused()
    less = dict(registration._METHODS)
    del less["abort_transport"]
    Ray(monkeypatch, less)
    assert "abort_transport" in refused()


@pytest.mark.parametrize("name", [name for name, parameters in registration._METHODS.items() if parameters])
def test_a_version_with_other_parameters_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    Ray(monkeypatch, {**registration._METHODS, name: ("self", "other")})
    assert f"{name}() has other parameters" in refused()


def test_a_version_that_registers_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(monkeypatch, registration._METHODS)
    ray.module.experimental.register_tensor_transport = lambda name: None
    assert "register_tensor_transport() has other parameters" in refused()
    del ray.module.experimental.register_tensor_transport
    assert "register_tensor_transport" in refused()
    ray = Ray(monkeypatch, registration._METHODS)
    del ray.second.transport_manager_info
    assert "transport_manager_info" in refused()


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(vks.UnsupportedError, match=r"pip install 'vkshare\[ray\]'"):
        vks.ray.register()

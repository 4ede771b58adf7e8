"""Registers vkshare's tensor transport with Ray (rules G4 and G7)."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.ray.received import received

if TYPE_CHECKING:
    from types import ModuleType

NAME = "vkshare"
KNOWN_VERSIONS = ("2.60",)  # with which the tests run

# The methods of a transport, with the parameters of Ray's alpha interface.
_METHODS = {
    "tensor_transport_backend": (),
    "is_one_sided": (),
    "can_abort_transport": (),
    "actor_has_tensor_transport": ("self", "actor"),
    "extract_tensor_transport_metadata": ("self", "obj_id", "rdt_object"),
    "get_communicator_metadata": ("self", "src_actor", "dst_actor", "backend"),
    "recv_multiple_tensors": (
        *("self", "obj_id", "tensor_transport_metadata", "communicator_metadata", "target_buffers"),
    ),
    "send_multiple_tensors": ("self", "tensors", "tensor_transport_metadata", "communicator_metadata"),
    "garbage_collect": ("self", "obj_id", "tensor_transport_meta", "tensors"),
    "abort_transport": ("self", "obj_id", "communicator_metadata"),
}
_REGISTER = ("transport_name", "devices", "transport_manager_class", "data_type")


def register() -> None:
    """Makes ``"vkshare"`` a tensor transport of Ray's, for values that are surfaces. Idempotent.

    Call it before the classes of the actors are defined, and in ``__init__`` of those with
    ``max_restarts``: Ray passes it on to an actor once. ``@ray.method(tensor_transport="vkshare")``
    then marks methods that return surfaces, alone or inside other values. An actor that takes such a
    value on the same node gets read-only handles of the surfaces themselves; on another node it gets
    copies, which Ray's object store has moved. Frames are handed on with key 0.

    Raises
    ------
    UnsupportedError
        Ray is not installed, or its alpha interface is another one than this vkshare knows; the text names both
        versions.
    """
    ray = _ray()
    module = importlib.import_module("ray.experimental.rdt.util")
    transport = importlib.import_module("vkshare.ray.transport").SurfaceTransport
    if NAME.upper() not in module.transport_manager_info:
        ray.experimental.register_tensor_transport(NAME, ["cpu"], transport, Surface)


def use(device: Device) -> None:
    """Has the surfaces that this process takes from others opened on that device.

    Without it, the first one that arrives opens a device by ``vkshare.open()``. Where the device cannot open a
    surface's memory, it mirrors it (``device.mirror()``).

    Parameters
    ----------
    device
        An open device, which stays the caller's.
    """
    received.use(device)


def _ray() -> ModuleType:
    """Return Ray, whose interface is as this vkshare knows it."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UnsupportedError("vkshare.ray", f"Ray is not installed ({error})", "pip install 'vkshare[ray]'") from None
    missing = _differences(ray)
    if missing:
        raise UnsupportedError(
            f"Ray {ray.__version__}",
            f"its tensor transports are not as vkshare knows them: {missing}",
            f"use Ray {' or '.join(KNOWN_VERSIONS)}",
        )
    return ray


def _differences(ray: Any) -> str:
    """Return what is not as in the known versions; "": nothing."""
    try:
        base = importlib.import_module("ray.experimental.rdt.tensor_transport_manager").TensorTransportManager
        registering = ray.experimental.register_tensor_transport
        importlib.import_module("ray.experimental.rdt.util").transport_manager_info  # noqa: B018
    except (ImportError, AttributeError) as error:
        return str(error)
    abstract = set(base.__abstractmethods__)
    if abstract != set(_METHODS):
        return f"the methods {', '.join(sorted(abstract ^ set(_METHODS)))} differ"
    if tuple(inspect.signature(registering).parameters) != _REGISTER:
        return "register_tensor_transport() has other parameters"
    for name, wanted in _METHODS.items():
        found = inspect.getattr_static(base, name)
        if wanted and tuple(inspect.signature(found).parameters) != wanted:
            return f"{name}() has other parameters"
    return ""

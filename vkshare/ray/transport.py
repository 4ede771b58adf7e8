"""The tensor transport: how a frame goes from one actor to another (rule G4). Imports Ray.

Ray has the references, the lifetimes, the deaths, and the bytes between nodes; vkshare has the
descriptors between processes of one node.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
)
from ray.experimental.rdt.util import get_tensor_transport_manager

from vkshare.core.surface import Surface
from vkshare.errors import InvalidCallError, UnsupportedError, VkshareError
from vkshare.ray import offers
from vkshare.ray.offers import Offer
from vkshare.ray.received import Picture, received
from vkshare.ray.registration import NAME

_log = logging.getLogger("vkshare.ray")

_PATIENCE = 30.0  # seconds that the reading of a frame may take
_FETCH_PATIENCE = 60.0  # seconds until the pixels of another node are there
# Ray's concurrency groups of an actor that methods of the user do not delay have a thread each. "_ray_system" receives,
# and so waits for other actors: two that wait for each other would never answer. This one waits for no actor.
_SERVING = "_ray_system_error"


@dataclass
class SurfacesMetadata(TensorTransportMetadata):
    """The surfaces of one value, as Ray passes it on."""

    node: str = ""
    offers: list[Offer | None] = field(default_factory=list)  # None: it cannot be opened elsewhere
    failure: str = ""  # why the value cannot be passed on


@dataclass
class SourceMetadata(CommunicatorMetadata):
    """The actor that has the surfaces; None: Ray does not say."""

    source: Any = None


@dataclass
class _Value:
    """The surfaces of a value that this process has returned."""

    surfaces: list[Surface]
    own: list[Offer]  # offers for this value alone


class SurfaceTransport(TensorTransportManager):
    """One for each process, made by Ray."""

    def __init__(self) -> None:
        self._values: dict[str, _Value] = {}

    def tensor_transport_backend(self) -> str:
        return NAME.upper()

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True  # nothing is under way that would have to be ended

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Surface]) -> SurfacesMetadata:
        self._forget(obj_id)  # of an earlier attempt of the task
        value = self._values[obj_id] = _Value([], [])
        shapes = [(each.shape, each._dtype) for each in rdt_object]
        try:
            return SurfacesMetadata(shapes, "cpu", _node(), self._offers(rdt_object, value))
        except (VkshareError, OSError) as error:  # Ray keeps the surfaces for ever if this raises
            self._forget(obj_id)
            return SurfacesMetadata(shapes, "cpu", _node(), [], f"{type(error).__name__}: {error}")

    def _offers(self, surfaces: list[Surface], value: _Value) -> list[Offer | None]:
        found: list[Offer | None] = []
        for surface in surfaces:
            # Another process may draw into what it has sent, once Ray has dropped its reference.
            surface = received.copy(_read(surface)) if received.has(surface) else surface
            value.surfaces.append(surface)
            found.append(offers.of_frame(surface) or self._offer(surface, value))
        return found

    def _offer(self, surface: Surface, value: _Value) -> Offer | None:
        try:
            value.own.append(offers.make(surface))
        except UnsupportedError as error:  # it goes through Ray's object store
            _log.debug("%r is not offered: %s", surface, error)
            return None
        return value.own[-1]

    def get_communicator_metadata(self, src_actor: Any, dst_actor: Any, backend: str | None = None) -> SourceMetadata:
        return SourceMetadata(src_actor)

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: SurfacesMetadata,
        communicator_metadata: SourceMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Surface]:
        why = ""
        if tensor_transport_metadata.failure:
            raise InvalidCallError(
                f"the actor returned a frame that cannot travel: {tensor_transport_metadata.failure}"
            )
        if tensor_transport_metadata.node == _node() and None not in tensor_transport_metadata.offers:
            try:
                return [received.open(each) for each in tensor_transport_metadata.offers if each is not None]
            except (VkshareError, OSError) as error:  # in another container, for example
                why = f", and cannot be opened here: {error}"
        if communicator_metadata.source is None:
            advice = "pass the reference to a method of an actor"
            raise UnsupportedError("a frame of another actor", f"Ray does not say which one has it{why}", advice)
        ask = communicator_metadata.source.__ray_call__.options(concurrency_group=_SERVING)
        return [received.copy(each) for each in ray.get(ask.remote(_pictures, obj_id), timeout=_FETCH_PATIENCE)]

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: Any, communicator_metadata: Any
    ) -> None:
        raise NotImplementedError("the receiver opens the surfaces")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: SurfacesMetadata, tensors: list[Any]) -> None:
        self._forget(obj_id)

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        pass

    def pictures(self, obj_id: str) -> list[Picture]:
        """The pixels of a value that this process has returned."""
        return [_read(each) for each in self._values[obj_id].surfaces]

    def _forget(self, obj_id: str) -> None:
        value = self._values.pop(obj_id, None)
        if value is not None:
            for each in value.own:
                each.withdraw()


def _pictures(_: Any, obj_id: str) -> list[Picture]:
    """Runs in the actor that has the value."""
    manager = get_tensor_transport_manager(NAME.upper())
    assert isinstance(manager, SurfaceTransport)
    return manager.pictures(obj_id)


def _read(surface: Surface) -> Picture:
    with surface.access(0, 0, _PATIENCE, writable=False) as view:
        if surface.spec.format.is_planar:
            arrays = list(surface.read_planes(_PATIENCE))
        elif surface.is_host_visible and offers.of_frame(surface) is not None:
            arrays = [view.array]  # the memory itself, to which nothing writes while Ray has the frame
        else:
            arrays = [surface.read(_PATIENCE)]
    return surface.format, surface.color, arrays


def _node() -> str:
    return str(ray.get_runtime_context().get_node_id())

"""Rendering for another machine: its GPU draws and shows what programs here submit.

A link carries messages in lanes over one TLS connection, and survives its breaks:

    listener = vks.remote.LinkListener("127.0.0.1:0", token, events=vks.remote.LinkEvents(on_message))
    link = vks.remote.connect(listener.address, token, events=vks.remote.LinkEvents(on_message))

docs/spec/remote-protocol.md describes the wire format.
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]
__getattr__, __dir__ = _public.load, _public.names

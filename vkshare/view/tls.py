"""The TLS context of a view server."""

from __future__ import annotations

import ssl
from typing import Any

from vkshare.util import certificates

Certificate = ssl.SSLContext | tuple[certificates.File, certificates.File]


def context_of(certificate: Any, *, hint: str = "give the file of its key: certificate=(chain, key)") -> ssl.SSLContext:
    """Return the context of what ``serve(certificate=)`` takes. `hint` says what to do where the file has no key.

    Raises
    ------
    TypeError, ValueError
        It is neither a context for servers nor two paths; or a file of the two has something else in it.
    OSError
        A file cannot be read.
    """
    if isinstance(certificate, ssl.SSLContext):
        if certificate.protocol is ssl.PROTOCOL_TLS_CLIENT:
            raise ValueError("certificate is a client's context; allowed is one of ssl.PROTOCOL_TLS_SERVER")
        return certificate
    if not (isinstance(certificate, tuple) and len(certificate) == 2):
        raise TypeError(
            f"certificate must be an ssl.SSLContext or the paths (chain, key), not {type(certificate).__name__}"
        )
    return certificates.server_context(*certificate, ssl.TLSVersion.TLSv1_2, hint=hint)

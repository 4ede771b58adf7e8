"""Certificates of a view server: the TLS context, with errors that name the file and what it lacks."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

Certificate = ssl.SSLContext | tuple[str | os.PathLike[str], str | os.PathLike[str]]

_KEY = b"PRIVATE KEY-----"
_CHAIN = b"-----BEGIN CERTIFICATE-----"


def context_of(certificate: Any) -> ssl.SSLContext:
    """Return the context of what ``serve(certificate=)`` takes.

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
    return load(*certificate, hint="give the file of its key: certificate=(chain, key)")


def load(chain: str | os.PathLike[str], key: str | os.PathLike[str], *, hint: str) -> ssl.SSLContext:
    """Return a context of a certificate chain and its key, two PEM files or one.

    Parameters
    ----------
    chain, key
        The paths.
    hint
        What to do where the file has no key.

    Raises
    ------
    OSError
        A file cannot be read.
    ValueError
        A file has no certificate, or no key; or the two do not belong together.
    """
    chain, key = os.fspath(chain), os.fspath(key)
    if _CHAIN not in _read("certificate", chain):
        raise ValueError(f"{chain} has no certificate: allowed is a PEM file, which has BEGIN CERTIFICATE in it")
    if _KEY not in _read("key", key):
        raise ValueError(f"{key} has no private key: {hint}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(chain, key)
    except ssl.SSLError as error:
        why = "they do not belong together" if "MISMATCH" in str(error.reason) else f"OpenSSL says {error}"
        raise ValueError(f"the certificate {chain} and the key {key} cannot be used: {why}") from None
    return context


def _read(what: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OSError(error.errno, f"the {what} {path} cannot be read: {error.strerror}") from None

"""Certificates of servers: PEM files, with errors that name the file and what it lacks."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

File = str | os.PathLike[str]

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
_KEY = re.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")


def certificates(file: File) -> list[bytes]:
    """Return the certificates (DER) of a PEM file, at least one.

    Raises
    ------
    ValueError
        The file has none.
    OSError
        The file cannot be read.
    """
    found = _CERTIFICATE.findall(_read("certificate", file))
    if not found:
        raise ValueError(f"{os.fspath(file)} has no certificate in PEM form: openssl req -x509 makes one")
    return [ssl.PEM_cert_to_DER_cert(each) for each in found]


def check_key(file: File, hint: str) -> None:
    """Raise ValueError, which ends with the hint, where a PEM file has no private key. OSError: it cannot be read."""
    if not _KEY.search(_read("key", file)):
        raise ValueError(f"{os.fspath(file)} has no private key in PEM form: {hint}")


def server_context(chain: File, key: File, oldest: ssl.TLSVersion, *, hint: str) -> ssl.SSLContext:
    """Return a server's context of a certificate chain and its key, two PEM files or one.

    Parameters
    ----------
    chain, key
        The paths.
    oldest
        The oldest version of TLS that is spoken.
    hint
        What to do where the file has no key.

    Raises
    ------
    OSError
        A file cannot be read.
    ValueError
        A file has no certificate, or no key; or the two do not belong together.
    """
    certificates(chain)
    check_key(key, hint)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = oldest
    try:
        context.load_cert_chain(chain, key)
    except ssl.SSLError as error:
        why = "they do not belong together" if "MISMATCH" in str(error.reason) else f"OpenSSL says {error}"
        text = f"the certificate {os.fspath(chain)} and the key {os.fspath(key)} cannot be used: {why}"
        raise ValueError(text) from None
    return context


def _read(what: str, file: File) -> str:
    try:
        return Path(file).read_text("latin-1")
    except OSError as error:
        raise OSError(error.errno, f"the {what} {os.fspath(file)} cannot be read: {error.strerror}") from None

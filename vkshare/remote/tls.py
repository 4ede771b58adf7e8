"""TLS 1.3 for a link, and where a link may do without (rule M11)."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from pathlib import Path

from vkshare.remote.addresses import Address, Resolved

SYSTEM = "system"  # in place of a certificate's file: the certificates that this machine trusts

Paths = tuple[str | os.PathLike[str], str | os.PathLike[str]]


def host_context(
    certificate: Paths | None, address: Address, resolved: Sequence[Resolved]
) -> tuple[ssl.SSLContext | None, bytes | None]:
    """Return the host's context and its certificate (DER); None and None: the link is not encrypted.

    Parameters
    ----------
    certificate
        Files with the certificate and with its key, both PEM.
    address, resolved
        The address to listen at, as it was written and as numbers.

    Raises
    ------
    ValueError
        The address can be reached from other machines, and there is no certificate; or the files are malformed.
    OSError
        A file cannot be read.
    """
    if certificate is None:
        _need_loopback(address, resolved, "certificate=(certificate file, key file)")
        return None, None
    if isinstance(certificate, str | os.PathLike) or len(certificate) != 2:
        raise ValueError(f"certificate is {certificate!r}; the host needs two files: (certificate file, key file)")
    own, key = certificate
    der = certificates(own)[0]
    if not has_key(key):
        raise ValueError(
            f"{os.fspath(key)} has no private key in PEM form: pass certificate=(certificate file, key file)"
        )
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # a session of TLS is never resumed, and nothing may be sent before authentication
    try:
        context.load_cert_chain(own, key)
    except ssl.SSLError as error:
        files = f"{os.fspath(own)} and {os.fspath(key)}"
        raise ValueError(f"the certificate and the key in {files} cannot be used: {error}") from None
    return context, der


def viewer_context(
    certificate: str | os.PathLike[str] | None, address: Address, resolved: Sequence[Resolved]
) -> tuple[ssl.SSLContext | None, list[bytes] | None]:
    """Return the viewer's context, and the certificates (DER) of which the host must have one; None: any trusted one.

    Parameters
    ----------
    certificate
        A file with the host's own certificate, which replaces the check of its name; SYSTEM for the
        authorities that this machine trusts.
    address, resolved
        The host's address, as it was written and as numbers.

    Raises
    ------
    ValueError
        The address is another machine's, and there is no certificate; or the file is malformed.
    OSError
        The file cannot be read.
    """
    if certificate is None:
        _need_loopback(address, resolved, f"certificate=(the host's certificate file), or {SYSTEM!r}")
        return None, None
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if certificate == SYSTEM:
        context.load_default_certs()
        return context, None
    pinned = certificates(certificate)
    context.check_hostname = False  # check_pinned() compares the certificate itself
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a certificate of an authority can be pinned, too
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # self-signed ones often lack a field that Python 3.13 demands
    context.load_verify_locations(cadata=b"".join(pinned))
    return context, pinned


def certificates(file: str | os.PathLike[str]) -> list[bytes]:
    """Return the certificates (DER) of a PEM file, at least one.

    Raises
    ------
    ValueError
        The file has none.
    OSError
        The file cannot be read.
    """
    found = re.findall(
        r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", Path(file).read_text("latin-1"), re.S
    )
    if not found:
        raise ValueError(f"{os.fspath(file)} has no certificate in PEM form: openssl req -x509 makes one")
    return [ssl.PEM_cert_to_DER_cert(each) for each in found]


def has_key(file: str | os.PathLike[str]) -> bool:
    """Return whether a PEM file has a private key. OSError: it cannot be read."""
    return re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY-----", Path(file).read_text("latin-1")) is not None


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def is_needed(resolved: Sequence[Resolved]) -> bool:
    """Return whether a link at these addresses needs TLS: one of them is not loopback."""
    return not all(each.is_loopback for each in resolved)


def _need_loopback(address: Address, resolved: Sequence[Resolved], instead: str) -> None:
    if is_needed(resolved):
        raise ValueError(
            f"{address} is no loopback address, and a link without TLS is for loopback only: pass {instead}, or use "
            "127.0.0.1 through an ssh tunnel"
        )

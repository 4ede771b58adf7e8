"""TLS 1.3 for a link, and where a link may do without (rule M11)."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence

from vkshare.remote.addresses import Address, Resolved
from vkshare.util import certificates

SYSTEM = "system"  # in place of a certificate's file: the certificates that this machine trusts
_OLDEST = ssl.TLSVersion.TLSv1_3

Paths = tuple[certificates.File, certificates.File]


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
    context = certificates.server_context(own, key, _OLDEST, hint="pass certificate=(certificate file, key file)")
    context.num_tickets = 0  # a session of TLS is never resumed, and nothing may be sent before authentication
    return context, certificates.certificates(own)[0]


def viewer_context(
    certificate: certificates.File | None, address: Address, resolved: Sequence[Resolved]
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _OLDEST
    if certificate == SYSTEM:
        context.load_default_certs()
        return context, None
    pinned = certificates.certificates(certificate)
    context.check_hostname = False  # check_pinned() compares the certificate itself
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a certificate of an authority can be pinned, too
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # self-signed ones often lack a field that Python 3.13 demands
    context.load_verify_locations(cadata=b"".join(pinned))
    return context, pinned


def is_needed(resolved: Sequence[Resolved]) -> bool:
    """Return whether a link at these addresses needs TLS: one of them is not loopback."""
    return not all(each.is_loopback for each in resolved)


def _need_loopback(address: Address, resolved: Sequence[Resolved], instead: str) -> None:
    if is_needed(resolved):
        raise ValueError(
            f"{address} is no loopback address, and a link without TLS is for loopback only: pass {instead}, or use "
            "127.0.0.1 through an ssh tunnel"
        )

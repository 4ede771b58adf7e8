"""Arguments of `vkshare remote` and `vkshare viewer`, and their errors in terms of options and variables."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

TOKEN_VARIABLE = "VKSHARE_REMOTE_TOKEN"


class ArgumentError(Exception):
    """An option or a variable is wrong; the text says how."""


def add_token_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --token-file."""
    parser.add_argument("--token-file", metavar="FILE", help=f"a file with the token (default: {TOKEN_VARIABLE})")


def text_of(error: OSError | ValueError) -> str:
    """Returns an error's text without the number of the operating system, and with its file."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def given_token(args: argparse.Namespace) -> str:
    """Returns the token of --token-file or the environment; "" without one. ArgumentError: it cannot be used."""
    if args.token_file is not None:
        try:
            token = Path(args.token_file).read_text().strip()
        except OSError as error:
            raise ArgumentError(f"--token-file {text_of(error)}") from None
        except UnicodeDecodeError:
            raise ArgumentError(f"--token-file {args.token_file}: the file is no text") from None
        return _checked(token, f"--token-file {args.token_file}")
    token = os.environ.get(TOKEN_VARIABLE, "")
    return _checked(token, TOKEN_VARIABLE) if token else ""


def asked_token() -> str:
    """Asks for the token at the terminal; "" where there is none. ArgumentError: it cannot be used."""
    if not sys.stdin.isatty():
        return ""
    try:
        token = getpass.getpass("token: ")
    except (EOFError, KeyboardInterrupt) as error:
        print(file=sys.stderr)  # the prompt's line ends
        if isinstance(error, EOFError):
            return ""
        raise
    return _checked(token, "the prompt") if token else ""


def _checked(token: str, source: str) -> str:
    from vkshare.remote.handshake import MIN_TOKEN

    if len(token) < MIN_TOKEN:
        raise ArgumentError(
            f"the token of {source} has {len(token)} characters; at least {MIN_TOKEN} are needed: use the one that "
            f"`vkshare remote` prints without --token-file and {TOKEN_VARIABLE}, on both sides"
        )
    return token


def check_bind(bind: str, certificate: str | None) -> str:
    """Returns the address to listen at, of "HOST:PORT" or "PORT". ArgumentError: it needs a certificate."""
    bind = f"127.0.0.1:{bind}" if bind.isascii() and bind.isdecimal() else bind
    _check_address(bind, certificate, "--bind", "--certificate FILE --key FILE")
    return bind


def check_address(address: str, certificate: str | None) -> None:
    """Checks the address of a host, and the host's certificate."""
    _check_address(address, certificate, "HOST:PORT", "--certificate FILE (the host's), or --certificate system")
    if certificate is not None:
        from vkshare.remote import tls

        if certificate != tls.SYSTEM:
            _check_certificate(certificate)


def check_certificate(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    """Returns the files of a host's certificate and its key; None: there are none."""
    if certificate is None:
        if key is not None:
            raise ArgumentError("--key is for --certificate")
        return None
    _check_certificate(certificate)
    from vkshare.util import certificates

    file = certificate if key is None else key
    advice = "give --key" if key is None else "give the file that has the certificate's key"
    try:
        certificates.check_key(file, advice)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--key: {text_of(error)}") from None
    return certificate, file


def _check_certificate(file: str) -> None:
    from vkshare.util import certificates

    try:
        certificates.certificates(file)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--certificate: {text_of(error)}") from None


def _check_address(text: str, certificate: str | None, what: str, instead: str) -> None:
    from vkshare.remote import addresses, tls

    try:
        address = addresses.parse(text)
    except ValueError as error:
        raise ArgumentError(f"{what}: {error}") from None
    if certificate is None and tls.is_needed(addresses.resolve(address)):
        raise ArgumentError(
            f"{address} is no loopback address, and a link without TLS is for loopback only: give {instead}, or use "
            "127.0.0.1 through an ssh tunnel"
        )

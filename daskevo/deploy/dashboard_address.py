"""Address of a local cluster's dashboard."""

from __future__ import annotations

import socket

from daskevo.errors import InvalidInput


def dashboard_place(asked: str | int) -> str:
    """Return ``host:port`` or ``:port`` at which a dashboard can listen.

    A port in use is none of this: Dask warns, and takes another. What else is amiss it says without what was asked for,
    once a cluster is half started, or takes for a port in use.

    Parameters
    ----------
    asked:
        Such a text, or a port.

    Raises
    ------
    InvalidInput
        If it is none, or no address of this machine.

    Examples
    --------
    >>> dashboard_place(":8787"), dashboard_place(8787), dashboard_place("127.0.0.1:0")
    (':8787', ':8787', '127.0.0.1:0')
    """
    host, _, port = str(asked).rpartition(":")
    why = "that is no port"
    if port.isdecimal() and int(port) < 1 << 16:
        try:
            (family, kind, *_, address), *_ = socket.getaddrinfo(host.strip("[]") or None, 0, type=socket.SOCK_STREAM)
            with socket.socket(family, kind) as here:
                # Port 0, so that only the address is tried: a port in use is none of the errors.
                here.bind(address)
        except (OSError, UnicodeError) as error:
            why = f"this machine can't listen there ({error})"
        else:
            return f"{host}:{port}"
    raise InvalidInput(
        f"dashboard_address={str(asked)[:200]!r} was asked for, and {why}: use ':8787', ':0' for any free port, "
        "'127.0.0.1:8787' for one address of this machine, or None for no dashboard"
    )

"""Network interfaces of this host, and what is said of one that it doesn't have."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import psutil  # type: ignore[import-untyped]


def ipv4_interfaces() -> dict[str, str]:
    """Return the interfaces of this host that have an IPv4 address, which is what Dask listens on."""
    return {
        name: address.address
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family == socket.AF_INET
    }


def say_missing(name: str, there: Mapping[str, str], key: str) -> str | None:
    """Return what is wrong with an interface's name; None: there is one.

    Parameters
    ----------
    there:
        Interfaces and their addresses.
    key:
        What names it: a key of the configuration, or an option.

    Examples
    --------
    >>> say_missing("ib0", {"lo": "127.0.0.1"}, "--interface")
    "'ib0' is not a valid network interface of this host: --interface names it, and there are lo (127.0.0.1)"
    """
    if name in there:
        return None
    found = ", ".join(f"{name} ({address})" for name, address in there.items()) or "none"
    return f"{name!r:.40} is not a valid network interface of this host: {key} names it, and there are {found}"

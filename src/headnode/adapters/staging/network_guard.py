"""Lets this process connect only where the administrator allows.

The check is at the connection itself: after a name was resolved, for every redirect and every data
connection, whatever library makes it.
Source: docs.python.org, "Audit events table": socket.connect, socket.sendto."""

import ipaddress
import socket
import sys
from collections.abc import Iterable
from typing import Any

ANY = "any"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291, "IPv4-Compatible IPv6 Address"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressRefused(PermissionError):
    """An address is neither public nor allowed."""


def networks_of(names: Iterable[str]) -> tuple[Network, ...] | None:
    """Return the networks that are allowed beside public addresses; None: all.

    Raises:  ValueError for what is no network.
    """
    networks = tuple(names)
    if ANY in networks:
        return None
    return tuple(ipaddress.ip_network(name, strict=False) for name in networks)


def is_allowed(address: str, networks: tuple[Network, ...]) -> bool:
    """Whether an address is public, or in one of the networks.

    An IPv6 address that leads to an IPv4 address is as that one.

    >>> is_allowed("93.184.216.34", ()), is_allowed("::ffff:10.0.0.1", ()), is_allowed("169.254.169.254", ())
    (True, False, False)
    >>> is_allowed("2002:a00:1::", ()), is_allowed("64:ff9b::a9fe:a9fe", ())
    (False, False)
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    plain = _embedded(ip) or ip
    public = plain.is_global and not plain.is_multicast and plain not in _LOCAL_NAT64
    return public or any(plain in network for network in networks if network.version == plain.version)


def _embedded(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address to which a gateway on the way would connect: mapped, 6to4, Teredo, NAT64.

    Those of IPv4-compatible addresses too, but for `::` and `::1`.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return None
    teredo = address.teredo
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


class NetworkGuard:
    """Refuses connections of this process for good; `refused` is the last address that was."""

    def __init__(self, networks: tuple[Network, ...]) -> None:
        self._networks = networks
        self.refused = ""

    def start(self) -> None:
        """Watch every connection from now on.  It cannot be ended."""
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("socket.connect", "socket.sendto"):
            return
        made, address = arguments
        if getattr(made, "family", None) == socket.AF_UNIX or not isinstance(address, tuple) or not address:
            return
        self.check(str(address[0]))

    def check(self, address: str) -> None:
        """Raises:  AddressRefused."""
        if address in ("", "0.0.0.0", "::"):  # noqa: S104 - it means this machine
            allowed = is_allowed("127.0.0.1", self._networks)
        else:
            try:
                allowed = is_allowed(address, self._networks)
            except ValueError:  # a name: what it resolves to is checked, since no library connects by names
                allowed = all(
                    is_allowed(str(found[4][0]), self._networks)
                    for found in socket.getaddrinfo(address, None, proto=socket.IPPROTO_TCP)
                )
        if not allowed:
            self.refused = address
            raise AddressRefused(1, f"{address} is not a public address")


def why_refused(address: str) -> tuple[str, str]:
    """Return the sentence and what to do."""
    return (
        f"{address} is not a public address, and the administrator does not allow it",
        f"an administrator can: hn cluster params TransferNetworks={address}, or any",
    )

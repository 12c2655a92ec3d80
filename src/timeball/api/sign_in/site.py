"""The addresses under which a server is its own site for browsers, and whether browsers may sign in there."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from timeball.domain.instant import SECOND
from timeball.domain.sign_in import SESSION_LIFETIME, SIGN_IN_ATTEMPT_LIFETIME
from timeball.domain.web_address import WebAddress, host_name, is_loopback, parse_address

_LOOPBACK: Final = "127.0.0.1"
_COOKIE_SECONDS: Final = SESSION_LIFETIME // SECOND
_ATTEMPT_SECONDS: Final = SIGN_IN_ATTEMPT_LIFETIME // SECOND


@dataclass(frozen=True, slots=True)
class Site:
    address: WebAddress
    """The address in links: the public URL, else the address that the server listens on."""
    is_public: bool = False
    """True if the address is the public URL of the settings."""
    scheme: str = "http"
    """The scheme that the server itself speaks. A proxy in front of it may speak another one."""
    refusal: str | None = None
    """Why no browser may sign in; None if browsers may."""

    @property
    def public_url(self) -> str | None:
        return self.address.url.rstrip("/") if self.is_public else None

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie. With HTTPS, browsers accept this name only from this host, and only over
        HTTPS. With HTTP, the name contains the port, because all ports of a host share their cookies.
        """
        return "__Host-timeball" if self.address.is_secure else f"timeball_{self.address.port}"

    @property
    def attempt_cookie_name(self) -> str:
        """The name of the cookie of a sign-in at the identity provider that a browser has begun."""
        return "__Host-timeball-attempt" if self.address.is_secure else f"timeball_attempt_{self.address.port}"

    @property
    def sign_in_url(self) -> str:
        """The page to which the identity provider sends browsers back, after they signed in or out there."""
        return f"{self.address.url}sign-in"

    def is_own_host(self, host: str | None) -> bool:
        """True if a `Host` header names this site or a loopback address. A page of another site whose name was made to
        resolve to this server (DNS rebinding) has another host.
        """
        name = None if host is None else host_name(host)
        return name is not None and (name == self.address.host or is_loopback(name))

    def is_own_origin(self, origin: str, host: str) -> bool:
        """True if an `Origin` header is the public URL, or a loopback address that the request was sent to."""
        if origin == self.address.origin:
            return True
        name = host_name(host)
        return name is not None and is_loopback(name) and origin == f"{self.scheme}://{host.lower()}"

    def session_cookie(self, secret: str) -> bytes:
        """Return the value of a `Set-Cookie` header. The cookie lasts as long as a session can; the server may end the
        session earlier."""
        return f"{self.cookie_name}={secret}; Max-Age={_COOKIE_SECONDS}{self._attributes}".encode()

    @property
    def no_cookie(self) -> bytes:
        """Return the value of a `Set-Cookie` header that removes the cookie."""
        return f"{self.cookie_name}=; Max-Age=0{self._attributes}".encode()

    def attempt_cookie(self, value: str) -> bytes:
        """Return the value of a `Set-Cookie` header for a sign-in that has begun."""
        return f"{self.attempt_cookie_name}={value}; Max-Age={_ATTEMPT_SECONDS}{self._attributes}".encode()

    @property
    def no_attempt_cookie(self) -> bytes:
        """Return the value of a `Set-Cookie` header that removes the cookie of a sign-in that is finished."""
        return f"{self.attempt_cookie_name}=; Max-Age=0{self._attributes}".encode()

    @property
    def _attributes(self) -> str:
        return f"; Path=/; HttpOnly; SameSite=Lax{'; Secure' if self.address.is_secure else ''}"


def find_cookie(header: str, name: str) -> str | None:
    """Return the value of a cookie in a `Cookie` header. None if it is missing, or if there are several, because a page
    of the same host on another port can add one.
    """
    prefix = f"{name}="
    found = [pair.removeprefix(prefix) for pair in map(str.strip, header.split(";")) if pair.startswith(prefix)]
    return found[0] if len(found) == 1 and found[0] else None


def make_site(host: str, port: int, *, tls: bool, public_url: str | None, allow_insecure: bool = False) -> Site:
    """Return the site of a server that listens on a host and port. Browsers cannot sign in if browsers on other
    machines would send the cookie over HTTP, unless a setting of the server allows that."""
    scheme = "https" if tls else "http"
    address = WebAddress(scheme, _reachable(host), port) if public_url is None else parse_address(public_url)
    is_exposed = not (is_loopback(host) and is_loopback(address.host))
    refusal = None
    if is_exposed and not address.is_secure and not allow_insecure:
        refusal = (
            "this server refuses sign-in, because browsers on other machines would send their cookies over HTTP:"
            " start it with --public-url https://… behind a proxy with TLS, or with --tls-cert and --tls-key;"
            " --insecure-sign-in allows it as it is"
        )
    return Site(address, is_public=public_url is not None, scheme=scheme, refusal=refusal)


def _reachable(host: str) -> str:
    """Return the host for URLs: the loopback address if the server listens on all addresses; IPv6 in brackets."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    if address.is_unspecified:
        return _LOOPBACK
    return f"[{address}]" if address.version == 6 else str(address)

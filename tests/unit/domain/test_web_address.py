"""The address of a server as a browser sees it."""

import pytest

from timeball.domain.web_address import host_name, is_loopback, parse_address


@pytest.mark.parametrize(
    ("url", "origin", "base_path"),
    [
        ("https://timeball.example.org", "https://timeball.example.org", "/"),
        ("https://timeball.example.org:443/", "https://timeball.example.org", "/"),
        ("http://timeball.example.org:80", "http://timeball.example.org", "/"),
        ("http://timeball.example.org:443", "http://timeball.example.org:443", "/"),
        ("https://TIMEBALL.example.org:8443/a/b", "https://timeball.example.org:8443", "/a/b/"),
        ("http://[::1]:1300/x/", "http://[::1]:1300", "/x/"),
    ],
)
def test_an_address_is_an_origin_and_a_base_path(url: str, origin: str, base_path: str) -> None:
    address = parse_address(url)
    assert (address.origin, address.base_path) == (origin, base_path)
    assert address.url == origin + base_path
    assert address.is_secure == url.startswith("https")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:1300", "localhost"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("[::1]:1300", "[::1]"),
        ("timeball.example.org", "timeball.example.org"),
        ("", None),
        (":1300", None),
        ("::1", None),
        ("localhost:", None),
        ("localhost:x", None),
        ("localhost:1300:1300", None),
        ("localhost/evil", None),
        ("evil@localhost", None),
        ("localhost evil", None),
        ("localhost\x00", "localhost\x00"),
        ("[::1", None),
    ],
)
def test_a_host_header_is_a_name_and_a_port(header: str, name: str | None) -> None:
    assert host_name(header) == name


def test_names_of_this_machine_are_loopback_and_other_spellings_are_not() -> None:
    for host in ("localhost", "127.0.0.1", "127.255.0.9", "::1", "[::1]"):
        assert is_loopback(host), host
    others = ("localhost.", "127.1", "0x7f.1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "localhost\x00", "")
    for host in others:
        assert not is_loopback(host), host

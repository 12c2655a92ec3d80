import pytest

from timeball.api.client_connection import MAX_HOPS, TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("sender", "forwarded", "client"),
    [
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),  # the first one is what the client claims
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.2.3.4", "198.51.100.7"),
        ("10.0.0.1", "10.9.9.9,10.2.3.4", "10.9.9.9"),
        ("198.51.100.7", "203.0.113.9", "198.51.100.7"),  # not a trusted proxy
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9, unknown, 10.2.3.4", "10.2.3.4"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db9::1]:4711", "2001:db9::1"),
        ("2001:db8::1", "2001:db9::1", "2001:db9::1"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7\x00<script>", "10.0.0.1"),
        ("", "198.51.100.7", ""),
        ("127.0.0.1", ", ".join(["198.51.100.7"] + ["10.0.0.2"] * 100), "10.0.0.2"),
        ("127.0.0.1", ", ".join(["198.51.100.7"] + ["10.0.0.2"] * (MAX_HOPS - 1)), "198.51.100.7"),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(
    sender: str, forwarded: str | None, client: str
) -> None:
    assert PROXIES.client(sender, None if forwarded is None else forwarded.encode()) == client


def test_without_trusted_proxies_the_header_counts_nothing() -> None:
    assert TrustedProxies().client("10.0.0.1", b"198.51.100.7") == "10.0.0.1"

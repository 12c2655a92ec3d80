"""At which addresses browsers may sign in: not where other machines would send a cookie over HTTP, unless an operator
allows it."""

import itertools

import pytest

from timeball.api.sign_in.site import make_site

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXPOSED = ("0.0.0.0", "::", "10.0.0.5", "timeball.lan")


@pytest.mark.parametrize("host", LOOPBACK)
@pytest.mark.parametrize("tls", [True, False])
def test_this_machine_may_sign_in(host: str, tls: bool) -> None:
    site = make_site(host, 1300, tls=tls, public_url=None)
    assert site.refusal is None
    assert site.public_url is None


@pytest.mark.parametrize("host", EXPOSED)
def test_other_machines_may_sign_in_over_https_alone(host: str) -> None:
    """Every combination of the settings for a server that other machines reach."""
    urls = (None, "http://timeball.lan", "http://127.0.0.1:1300", "https://timeball.lan")
    for tls, public_url, allowed in itertools.product((True, False), urls, (True, False)):
        site = make_site(host, 1300, tls=tls, public_url=public_url, allow_insecure=allowed)
        is_https = tls if public_url is None else public_url.startswith("https")
        assert (site.refusal is None) == (is_https or allowed), (tls, public_url, allowed)
        assert site.cookie_name.startswith("__Host-") == is_https
        assert ("; Secure" in site.session_cookie("x").decode()) == is_https


def test_a_public_address_over_http_is_refused_also_if_the_server_listens_on_loopback() -> None:
    """A proxy without TLS, in front of it."""
    assert make_site("127.0.0.1", 1300, tls=False, public_url="http://timeball.lan").refusal is not None
    assert make_site("127.0.0.1", 1300, tls=False, public_url="https://timeball.lan").refusal is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1300/"),
        ("localhost", "http://localhost:1300/"),
        ("0.0.0.0", "http://127.0.0.1:1300/"),
        ("::", "http://127.0.0.1:1300/"),
        ("::1", "http://[::1]:1300/"),
        ("10.0.0.5", "http://10.0.0.5:1300/"),
        ("Timeball.LAN", "http://timeball.lan:1300/"),
    ],
)
def test_links_lead_to_where_the_server_listens(host: str, url: str) -> None:
    site = make_site(host, 1300, tls=False, public_url=None)
    assert site.address.url == url
    assert site.is_own_host(url.split("/")[2])


def test_servers_on_two_ports_have_two_cookies() -> None:
    one, other = (make_site("127.0.0.1", port, tls=False, public_url=None) for port in (1300, 1301))
    assert one.cookie_name != other.cookie_name
    behind = [make_site("127.0.0.1", port, tls=False, public_url="http://localhost") for port in (1300, 1301)]
    assert behind[0].cookie_name == behind[1].cookie_name, "servers behind one address share their sessions"

"""No spelling of an address that a tenant may not call leads to a connection, directly or behind a redirect."""

from __future__ import annotations

import msgspec
import pytest

from tests.security.refused_addresses import HOSTS, PUBLIC, Findings, urls
from tests.support.open_network import run_inside, unshare
from timeball.domain.run.lifecycle import INVALID

pytestmark = pytest.mark.xdist_group("refused addresses")

MIN_SPELLINGS = 60

UNRESOLVED = (
    "http://127.0.0.1.:",
    "http://127.1.:",
    "http://0x7f000001.:",
    "http://0.0.0.0.:",
    "http://169.254.169.254.:",
    "http://localhost.:",
    "http://[fe80::1%25lo]:",
    "http://%31%32%37.0.0.1:",
    "http://%6c%6f%63%61%6c%68%6f%73%74:",
)
"""These have no address for this client and a resolver with a hosts file and a name server. Others may have."""
MALFORMED = ("http:\\", "http://public.test\\@", "http:///", "//", "http://127.0.0.1\t:", ">http:\\", ">http:///")
"""These are refused before a name is resolved; as a location, the last two are paths of the target that redirects."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    if unshare() is None:
        pytest.skip("this machine does not allow network namespaces")
    printed = run_inside("tests.security.refused_addresses", tmp_path_factory.mktemp("network"), HOSTS)
    return msgspec.json.decode(printed, type=Findings)


def test_refused_addresses_get_no_connection(findings: Findings) -> None:
    same_host = tuple(f">{each}" for each in ("http:\\", "http:///"))
    connected = {
        url: result
        for url, result in findings.guarded.items()
        if (result.connected or result.arrived) and not url.startswith(same_host)
    }
    assert connected == {}
    assert len({url for url in findings.guarded if not url.startswith(">")}) == len(urls())


def test_the_failure_of_a_refused_address_has_no_retry_and_names_host_and_rule(findings: Findings) -> None:
    others = (*UNRESOLVED, *MALFORMED)
    refused = {url: each for url, each in findings.guarded.items() if not url.removeprefix(">").startswith(others)}
    assert len(refused) >= 2 * MIN_SPELLINGS
    assert {
        url: each for url, each in refused.items() if each.kind != INVALID or " is refused: " not in each.message
    } == {}
    named = findings.guarded["http://private.test:8080/"].message
    assert named == "POST http://private.test:8080/: an address of private.test is refused: private (10.0.0.0/8)"
    written = findings.guarded[">http://0x7f.1:8080/"].message
    assert (
        written == "POST http://public.test:8080/: the address 127.0.0.1 of 0x7f.1 is refused: loopback (127.0.0.0/8)"
    )


def test_the_same_calls_connect_without_the_guard(findings: Findings) -> None:
    """Otherwise the test above would show nothing."""
    silent = {url for url, each in findings.unguarded.items() if not each.connected}
    assert {url for url in silent if not url.removeprefix(">").startswith((*UNRESOLVED, *MALFORMED))} == set()
    arrived = [url for url, each in findings.unguarded.items() if each.arrived]
    assert len([url for url in arrived if not url.startswith(">")]) >= MIN_SPELLINGS
    assert len([url for url in arrived if url.startswith(">")]) >= MIN_SPELLINGS


def test_a_name_that_changes_is_judged_by_the_addresses_that_are_connected_to(findings: Findings) -> None:
    flip, flop = [([PUBLIC], ""), ([], INVALID)], [([], INVALID), ([PUBLIC], "")]
    assert [(each.connected, each.kind) for each in findings.turns] == [*flip, *flop]


def test_proxies_of_the_environment_are_not_used(findings: Findings) -> None:
    assert (findings.proxied.connected, findings.proxied.kind) == ([PUBLIC], "")

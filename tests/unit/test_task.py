"""What tasks say of themselves."""

import pytest

from timeball.domain.task import Http, Python, Script, Shell, host_of


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.Example.com/v1?x=1", "api.example.com:443"),
        ("http://api.example.com", "api.example.com:80"),
        ("http://api.example.com./", "api.example.com:80"),
        ("HTTP://user:secret@Example.com:8080/", "example.com:8080"),
        ("https://[2001:DB8::1]/", "[2001:db8::1]:443"),
        ("http://127.0.0.1:0/", "127.0.0.1:0"),
    ],
)
def test_whoever_calls_the_same_host_and_port_shares_its_circuit(url: str, host: str) -> None:
    assert host_of(Http(url=url)) == host


def test_a_task_that_calls_nobody_or_opted_out_has_no_circuit() -> None:
    others = (Shell(command="true"), Script(script="a.sh"), Python(function="f"))
    for task in (*others, Http(url="http://a", breaker=False), Http(url=f"http://{'a' * 254}/")):
        assert host_of(task) is None

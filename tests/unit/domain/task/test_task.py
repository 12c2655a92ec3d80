"""Checks and properties of tasks: the circuit breaker of a call, its URL, and names of functions."""

import pytest

from timeball.domain.task.task import Http, Python, Script, Shell, host_of


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


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com/",
        "http:example.com",
        "http:/example.com//",
        "http:///path",
        "http://?x",
        "http://:80/",
        "http://example.com:x/",
        "http://example.com:65536/",
        "http://[::1/",
        "http://[1.2.3.4]/",
        "http://exa mple.com/",
        " http://example.com/",
        "http://example.com/a b",
        "http://example.com/\n",
        "http://example.com/?\x00",
    ],
)
def test_only_a_url_that_can_be_called_is_accepted_however_often_it_is_tried(url: str) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="is not a"):
            Http(url=url)


@pytest.mark.parametrize("name", ["", ".a", "a b", "a\n", "ä", "a" * 201])
def test_only_the_name_of_a_function_is_accepted_however_often_it_is_tried(name: str) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="is not a task name"):
            Python(function=name)


def test_a_task_that_calls_nobody_or_opted_out_has_no_circuit() -> None:
    others = (Shell(command="true"), Script(script="a.sh"), Python(function="f"))
    for task in (*others, Http(url="http://a", breaker=False), Http(url=f"http://{'a' * 254}/")):
        assert host_of(task) is None

"""The values in the audit log: what changed, without secrets, bounded, in a form that can be hashed again."""

import time
import timeit
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeball.domain.audit_log.values import MAX_VALUES_LENGTH, canonical, changed, without_secrets

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def decoded(text: str | None) -> Any:
    assert text is not None
    return msgspec.json.decode(text)


@given(JSON)
def test_the_canonical_form_of_what_was_read_is_the_same(value: Any) -> None:
    text = canonical(value)
    assert canonical(msgspec.json.decode(text)) == text


def test_only_fields_that_differ_are_kept() -> None:
    before, after = changed({"name": "a", "state": "active", "old": 1}, {"name": "a", "state": "paused", "new": [1]})
    assert (before, after) == ('{"old":1,"state":"active"}', '{"new":[1],"state":"paused"}')


def test_everything_is_kept_of_what_begins_or_ends() -> None:
    assert changed(None, {"b": 1, "a": None}) == (None, '{"a":null,"b":1}')
    assert changed({"a": 1}, None) == ('{"a":1}', None)


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter22"},
        {"task": {"headers": {"Authorization": "hunter22"}}},
        {"headers": [{"X-Api-Key": "hunter22"}]},
        {"parameters": {"db": {"DB_PASSWORD": ["hunter22"]}}},
        {"url": "https://user:hunter22@example.org/x"},
        {"url": "https://example.org/x?token=hunter22&a=b"},
        {"command": ["psql", "--password=hunter22"]},
        {"command": ["psql", "--password", "hunter22"]},
        {"command": "psql --password hunter22 -c x"},
        {"command": "mysql --db-password 'hunter22'"},
        {"body": '{"user": "a", "password": "hunter22"}'},
        {"env": {"AWS_ACCESS_KEY": "hunter22", "PWD": "hunter22"}},
        {"task": {"env": {"DSN": "hunter22"}, "headers": {"X-Custom": "hunter22"}}},
        {"tasks": [{"headers": {"X-Custom": ["hunter22"]}}]},
        {"header": "Bearer hunter22abc"},
    ],
)
def test_secrets_are_never_written(value: dict[str, Any]) -> None:
    for text in (*changed(None, value), *changed(value, {}), *changed({"a": 1}, value)):
        assert text is None or "hunter22" not in text


def test_a_changed_secret_is_a_change() -> None:
    assert changed({"token": "old"}, {"token": "new"}) == ('{"token":"***"}', '{"token":"***"}')


def test_other_words_are_not_masked() -> None:
    told = {"command": ["tokenizer", "--passwords-file", "a", "secretary"], "name": "the keyboard of the author"}
    _, after = changed(None, told)
    assert decoded(after) == told


@pytest.mark.parametrize("part", ["-", "a-", "-a ", "--password", "://x:", "bearer ", "token", "password" + 999 * " "])
def test_the_time_to_find_secrets_grows_with_the_length_of_a_text(part: str) -> None:
    def seconds_of_cpu(length: int) -> float:
        value = {"text": part * (length // len(part))}
        return min(timeit.repeat(lambda: without_secrets(value), timer=time.process_time, number=1, repeat=5))

    # 64 times, unless it grows with the square: then 4,096 times
    assert seconds_of_cpu(134_400) < 512 * seconds_of_cpu(2_100)


def test_headers_without_secrets_and_the_names_of_variables_are_kept() -> None:
    _, after = changed(None, {"headers": {"Content-Type": "text/plain", "X-A": "b"}, "env": {"A": "b", "EMPTY": ""}})
    assert decoded(after) == {"headers": {"Content-Type": "text/plain", "X-A": "***"}, "env": {"A": "***", "EMPTY": ""}}


def test_numbers_of_tokens_are_not_secrets() -> None:
    assert changed(None, {"maxTokens": 5}) == (None, '{"maxTokens":5}')


def test_values_that_are_too_large_are_replaced_by_their_size_and_hash() -> None:
    _, after = changed(None, {"text": "x" * MAX_VALUES_LENGTH})
    assert after is not None
    assert decoded(after).keys() == {"omitted", "sha256"}

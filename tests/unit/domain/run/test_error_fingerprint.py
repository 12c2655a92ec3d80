"""Equal errors of different runs have the same fingerprint, and different errors have different ones."""

import itertools

import pytest

from timeball.domain.run.error_fingerprint import LENGTH, fingerprint, normalized
from timeball.domain.run.lifecycle import LOST, Failure

SAME = {
    "numbers": (
        "request 17 timed out after 30s",
        "request 90210 timed out after 1.5 s",
        "request 3 timed out after 250ms",
    ),
    "uuids": (
        "order 0a9f4c1e-8a5e-4b7e-9c56-6a1f0f3f7e11 is locked",
        "order C56A4180-65AA-42EC-A945-5FD21DEC0538 is locked",
    ),
    "hexadecimal": (
        "cannot read <Session object at 0x7f3a1c0b9d30>",
        "cannot read <Session object at 0x10dfe2a90>",
    ),
    "hashes": (
        "blob 9f86d081884c7d65 is missing",
        "blob 12345abcdef is missing",
        "blob e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 is missing",
    ),
    "pods": (
        "pod etl-7d9f8b6c5-x2x4z was evicted",
        "pod etl-6c5b9d8f7-9kq2w was evicted",
    ),
    "our own ids": (
        "waits for r_0194f3a1c2b79f86d081884c7d65",
        "waits for r_0195aaaac2b79f86d081884c7d99",
    ),
    "quoted values": (
        "customer 'smith' has no address",
        "customer 'O Neil, Jr.' has no address",
        'customer "jones" has no address',
        "customer “van Dyck” has no address",
    ),
    "bytes": ("unexpected b'\\x00\\x01' in the stream", 'unexpected b"it\'s" in the stream'),
    "paths": (
        "cannot open /var/lib/app/spool/a81/in.csv: no space left on device",
        "cannot open /mnt/other/out.csv: no space left on device",
        "cannot open ~/in.csv: no space left on device",
        r"cannot open C:\spool\in.csv: no space left on device",
    ),
    "queries of addresses": (
        "GET https://api.example.com/v1/users/17?token=abc: 502 Bad Gateway",
        "GET https://api.example.com/v1/users/4711: 502 Bad Gateway",
        "GET https://bob:secret@api.example.com/v1/users/1#top: 502 Bad Gateway",
    ),
    "times": (
        "lease expired at 2026-03-01T02:00:00Z",
        "lease expired at 2026-03-01T02:00:00.123456+01:00",
        "lease expired at 2026-12-24 18:30:01,250",
        "lease expired at Sun, 01 Mar 2026 02:00:00 GMT",
        "lease expired at 01/Mar/2026:02:00:00 +0000",
        "lease expired at Mar  1 02:00:00",
        "lease expired at 02:00:00.5",
    ),
    "hosts by address": (
        "connect to 10.0.0.17:5432 refused",
        "connect to 192.168.1.1:5433 refused",
        "connect to fe80::1ff:fe23:4567:890a refused",
    ),
    "mail": ("no mailbox bob@example.com", "no mailbox alice.w+x@mail.example.org"),
    "what PostgreSQL says": (
        'violates unique constraint "users_email_key"\nDETAIL:  Key (email)=(bob@example.com) already exists.',
        'violates unique constraint "users_email_key"\nDETAIL:  Key (email)=(eve@example.com) already exists.',
    ),
    "a traceback": (
        'exit code 1: File "/app/releases/81/etl.py", line 42, in load\n    raise Gone(row)\nGone: row 17 of 20',
        'exit code 1: File "/app/releases/93/etl.py", line 44, in load\n    raise Gone(row)\nGone: row 3 of 4',
    ),
    "an answer in JSON": (
        'POST https://pay.example.com/charge: 402 Payment Required: {"error": "card declined", "id": "ch_1a2b3c"}',
        'POST https://pay.example.com/charge: 402 Payment Required: {"error": "card declined", "id": "ch_zz99"}',
    ),
    "colours and white space": ("\x1b[31mfatal:\x1b[0m  disk\tis full\n", "fatal: disk is full"),
}

DIFFERENT = (
    "connection refused",
    "connection reset by peer",
    "[Errno 2] No such file or directory: '/tmp/a'",
    "[Errno 13] Permission denied: '/tmp/a'",
    "KeyError: 'user_id'",
    "KeyError: 'order_id'",
    "AttributeError: 'NoneType' object has no attribute 'close'",
    "AttributeError: 'NoneType' object has no attribute 'open'",
    "ModuleNotFoundError: No module named 'pandas'",
    "ModuleNotFoundError: No module named 'numpy'",
    "TypeError: load() got an unexpected keyword argument 'days'",
    "TypeError: load() got an unexpected keyword argument 'weeks'",
    "NameError: name 'load' is not defined",
    "NameError: name 'save' is not defined",
    'relation "users" does not exist',
    'relation "orders" does not exist',
    'duplicate key value violates unique constraint "users_email_key"',
    'duplicate key value violates unique constraint "orders_pkey"',
    'POST https://a.example.com/x: 400 Bad Request: {"error": "quota exceeded"}',
    'POST https://a.example.com/x: 400 Bad Request: {"error": "bad token"}',
    "POST https://b.example.com/x: 503 Service Unavailable",
    "POST https://b.example.com/y: 503 Service Unavailable",
    "POST https://c.example.com/x: 503 Service Unavailable",
    'exit code 1: File "/app/etl.py", line 42, in load',
    'exit code 1: File "/app/etl.py", line 42, in save',
    "can't open it, isn't there",
    "can't close it, isn't there",
    "",
)


@pytest.mark.parametrize("messages", SAME.values(), ids=SAME.keys())
def test_what_differs_from_run_to_run_does_not_count(messages: tuple[str, ...]) -> None:
    assert len({normalized(message) for message in messages}) == 1, [normalized(message) for message in messages]


def test_what_is_left_tells_errors_apart() -> None:
    examples = [*DIFFERENT, *(messages[0] for messages in SAME.values())]
    for one, other in itertools.combinations(examples, 2):
        assert normalized(one) != normalized(other), (one, other)


def test_the_kind_the_code_the_status_and_the_exception_count() -> None:
    failures = [
        Failure(kind="exit", message="it broke"),
        Failure(kind="timeout", message="it broke"),
        Failure(kind="exit", message="it broke", exit_code=1),
        Failure(kind="exit", message="it broke", exit_code=2),
        Failure(kind="http", message="it broke", status=500),
        Failure(kind="http", message="it broke", status=502),
        Failure(kind="exception", message="it broke", exceptions=("KeyError", "LookupError")),
        Failure(kind="exception", message="it broke", exceptions=("IndexError", "LookupError")),
        LOST,
    ]
    assert len({fingerprint(failure) for failure in failures}) == len(failures)


def test_a_fingerprint_is_short_and_does_not_change_between_versions() -> None:
    found = fingerprint(Failure(kind="exit", message="exit code 1: row 17 is bad", exit_code=1))
    assert found == fingerprint(Failure(kind="exit", message="exit code 1: row 18 is bad", exit_code=1))
    assert found == "7584174e3166"
    assert len(found) == LENGTH
    assert int(found, 16) >= 0


def test_only_the_beginning_of_a_long_message_counts() -> None:
    start = "out of memory " + "x" * 10_000
    assert normalized(start + "a") == normalized(start + "b")


@pytest.mark.parametrize(
    "piece", ["a1", "'", '"', "/a", "1.", "1:", "@a.", "<", "http://?", "\\", "f0", '"error":', "\ud800"]
)
def test_any_text_has_a_fingerprint(piece: str) -> None:
    """Also one that a rule which tries everything in every way would not get through."""
    assert len(fingerprint(Failure(kind="exit", message=piece * 100_000))) == LENGTH

"""The command line and the client over real HTTP, with the real API, store and loops. Only the worker is a fake."""

import asyncio
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.api import WORKER
from tests.support.both_clients import BOTH, either
from tests.support.live_server import LiveServer
from timeball import AsyncClient, Client, Invalid, NotFound, Unauthorized
from timeball.cli.root import timeball
from timeball.client.models.job import JobOptions

pytestmark = pytest.mark.usefixtures("environment_of_live")
Timeball = Callable[..., Result]


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(timeball, arguments, prog_name="timeball")
    assert result.exit_code == code, result.output
    return result.stdout if code in (0, 1) else result.stderr


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json"))


def fields(text: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in text.splitlines())


def test_a_job_from_its_creation_to_the_ledger() -> None:
    run_id, status = run("jobs", "create", "hello", "--shell", "echo", "--param", "a=1", "--wait").split()
    assert status == "succeeded"
    assert run("runs", "logs", run_id) == run("runs", "logs", "hello", "-f") == "did echo\nand ended\n"
    assert [line["stream"] for line in run_json("runs", "logs", run_id)["items"]] == ["stdout", "stdout"]
    assert run("top").splitlines()[2].startswith("running 0  queued 0")
    assert run("runs", "logs", run_id, "--grep", "DID") == run("runs", "logs", run_id, "--grep", "DID", "-f")
    assert [line["text"] for line in run_json("runs", "logs", run_id, "--grep", "end")["items"]] == ["and ended"]
    shown = fields(run("runs", "show", run_id))
    assert (shown["status"], shown["verdict"], shown["progress"]) == ("succeeded", "on_time", "100%")
    assert shown["job"].startswith("hello (j_")
    assert run("audit", "hello") == "1 due = 1 on time\n"
    assert run("runs", "wait", run_id) == f"{run_id}\tsucceeded\n"
    job = run_json("jobs", "show", "hello")
    assert (job["status"], job["parameters"]) == ("completed", {"a": 1})


@pytest.mark.parametrize("kind", BOTH)
def test_usage_is_shown_by_the_command_and_by_both_clients(live: LiveServer, kind: str) -> None:
    user = f"={kind}"
    with either(kind) as client:
        job = client.create_job("metered", shell="true", user_id=user)
        run("runs", "wait", job.job_id)
    (shown,) = run_json("usage", "--by", "job", "--job", job.job_id, "--from", "1d")["items"]
    assert (shown["jobName"], shown["attempts"]) == ("metered", 1)
    header, *lines = run("usage", "--user", user, "--by", "user,day").splitlines()
    assert header.split("\t") == [
        "USER", "DAY", "RUNS", "ATTEMPTS", "SECONDS", "CPU SECONDS", "GIB SECONDS", "BYTES", "COST"
    ]  # fmt: skip
    assert [line.split("\t")[0] for line in lines] == [user]
    assert run("usage", "--by", "user", "--user", user, "--csv").splitlines()[1].startswith(f"'{user},")
    assert "is not a list of different words" in run("usage", "--by", "week", code=2)
    with either(kind) as client:
        today = datetime.now(UTC).date()
        (found,) = client.usage(by=["job", "day"], job_id=job.job_id, since=today - timedelta(days=1))
        assert (found.runs, found.tenant_id) == (1, None)
        assert found.day in (today, today - timedelta(days=1))
        assert str(found.attempt_seconds) == shown["attemptSeconds"]


def test_a_job_that_fails_ends_in_the_dead_letters_and_can_be_retried() -> None:
    run_id = run("jobs", "create", "broken", "--shell", "false", "--retries", "0", "--wait", code=1).split()[0]
    assert f"{run_id}\tbroken" in run("dead", "list", "--job", "broken")
    assert "\texit code 1" in run("dead", "list")
    again = run("dead", "retry", run_id).splitlines()[1].split("\t")
    assert again[0] == run_id
    run("runs", "wait", again[1], code=1)
    third = run("runs", "retry", again[1], "--wait", code=1).split()[0]
    assert fields(run("runs", "show", third))["retry of"] == again[1]
    assert run("runs", "list", "--job", "broken", "--status", "dead").count("\tdead\t") == 3
    assert run("runs", "retry", run_id).strip() == again[1]


def test_dead_letters_of_one_error_are_edited_and_retried_by_group() -> None:
    for _ in range(3):
        run("jobs", "create", "grouped", "--shell", "false", "--retries", "0", "--tag", "grouped", "--wait", code=1)
    (group,) = [line.split("\t") for line in run("dead", "groups", "--tag", "grouped").splitlines()[1:]]
    assert group[1:3] == ["3", "3"]
    assert run("dead", "retry", "--tag", "grouped", "--dry-run") == "3\n"
    assert '"command":"false"' in fields(run("dead", "show", group[5]))["task"]
    edit = '{"task": {"kind": "shell", "command": "true"}}'
    retried = run("dead", "retry", "--group", group[0], "--tag", "grouped", "--edit", edit)
    assert fields(retried) == {"matched": "3", "retried": "3", "skipped": "0"}
    assert run("dead", "list", "--tag", "grouped").count("\n") == 1
    assert run_json("dead", "discard", "--tag", "grouped")["matched"] == 0
    done = run("runs", "list", "--tag", "grouped", "--origin", "retry").splitlines()[1].split("\t")[0]
    assert run("runs", "wait", done) == f"{done}\tsucceeded\n"
    replayed = run("runs", "replay", done).strip()
    assert fields(run("runs", "show", replayed))["replay of"] == done
    run("runs", "wait", replayed, code=1)
    assert run("runs", "bulk", "cancel", "--tag", "grouped", "--dry-run") == "0\n"


def test_a_schedule_is_listed_changed_paused_and_cancelled() -> None:
    job_id = run(
        *("jobs", "create", "nightly", "--shell", "x", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--tag", "night")
    ).strip()
    assert f"nightly\t{job_id}\tscheduled\t0 2 * * * (Europe/Berlin)" in run("jobs", "list", "--tag", "night")
    run("jobs", "update", "nightly", "--cron", "30 3 * * *", "--timeout", "5m", "--param", "days=3")
    job = run_json("jobs", "show", "nightly")
    assert (job["schedule"]["expression"], job["schedule"]["timezone"]) == ("30 3 * * *", "Europe/Berlin")
    assert (job["timeout"], job["parameters"], job["version"]) == ("5m", {"days": 3}, 2)
    assert "version" in run("jobs", "update", job_id, "--timeout", "1m", "--version", "1", code=6)
    run("jobs", "pause", "nightly", "--reason", "holiday")
    assert fields(run("jobs", "show", "nightly"))["paused because"] == "holiday"
    run("jobs", "resume", "nightly")
    shown = fields(run("jobs", "show", "nightly"))
    assert shown["status"] == "scheduled"
    assert "then" in shown
    run_id = run("jobs", "run", "nightly").strip()
    assert run("runs", "wait", run_id) == f"{run_id}\tsucceeded\n"
    run("jobs", "delete", "nightly", "--yes")
    assert run("jobs", "delete", job_id) == f"{job_id}\n"
    assert run_json("jobs", "show", job_id)["status"] == "cancelled"
    assert run("audit", "nightly") == "0 due\n"


def test_a_waiting_run_is_cancelled_and_accounted_for() -> None:
    at = (datetime.now(UTC) + timedelta(seconds=8)).isoformat(timespec="seconds")
    job_id = run("jobs", "create", "later", "--shell", "x", "--at", at).strip()
    run_id = run_json("runs", "list", "--job", job_id)["items"][0]["runId"]
    assert run_json("runs", "cancel", run_id)["status"] == "cancelled"
    assert run("runs", "wait", run_id, code=1) == f"{run_id}\tcancelled\n"


def test_one_idempotency_key_makes_one_job() -> None:
    create = ("jobs", "create", "once", "--shell", "x", "--at", "2100-01-01T00:00:00Z", "--idempotency-key", "the-one")
    assert run(*create) == run(*create)
    assert "key" in run(*create, "--priority", "high", code=6)


def test_keys_have_roles_and_can_be_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    created = run_json("keys", "create", "--role", "admin", "--name", "mine")
    assert f"{created['keyId']}\tadmin\tmine" in run("keys", "list")
    assert run("workers", "--token", created["key"]).splitlines()[1].startswith("w1\t")
    run("keys", "revoke", created["keyId"])
    assert "TIMEBALL_TOKEN" in run("workers", "--token", created["key"], code=5)
    run("jobs", "list", "--token", WORKER, code=5)
    monkeypatch.delenv("TIMEBALL_TOKEN")
    run("jobs", "list", code=5)


def test_a_registered_task_is_shared_and_kept_while_it_is_used() -> None:
    assert run("tasks", "set", "backup", "--shell", "pg_dump") == "backup\n"
    assert "backup\tshell\t1" in run("tasks", "list")
    assert fields(run("tasks", "show", "backup"))["command"] == "pg_dump"
    run("jobs", "create", "backups", "--task-id", "backup", "--every", "1h")
    run("tasks", "delete", "backup", code=6)
    run("jobs", "delete", "backups")
    run("tasks", "delete", "backup")
    run("tasks", "show", "backup", code=4)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("jobs", "create", "--shell", "x", "--cron", "0 0 30 2 *"), 2, "(at /schedule/expression)"),
        (("jobs", "create", "--shell", "x", "--cron", "@daily", "--tz", "Berlin"), 2, "did you mean 'Europe/Berlin'"),
        (("jobs", "create", "nothing"), 2, "a job needs"),
        (("jobs", "create", "--shell", "x", "--overlap", "skp"), 2, "did you mean 'skip'"),
        (("jobs", "show", "j_0000000000000000000000000000"), 4, "there is no job"),
        (("jobs", "show", "nobody"), 4, "there is no job 'nobody'"),
        (("runs", "show", "r_0000000000000000000000000000"), 4, "there is no run"),
        (("runs", "list", "--status", "runing"), 2, "did you mean 'running'"),
        (("keys", "revoke", "k_1"), 4, "there is no key 'k_1'"),
        (("workers", "--url", "http://127.0.0.1:9"), 3, "cannot reach Timeball at http://127.0.0.1:9"),
    ],
)
def test_refusals_say_what_is_wrong_and_exit_accordingly(arguments: tuple[str, ...], code: int, said: str) -> None:
    assert said in run(*arguments, code=code)


def test_lists_come_in_pages() -> None:
    for number in range(5):
        run("jobs", "create", f"page-{number}", "--shell", "x", "--every", "1d", "--tag", "pages")
    assert len(run("jobs", "list", "--tag", "pages", "--limit", "2").splitlines()) == 3
    assert len(run("jobs", "list", "--tag", "pages", "--limit", "2", "--all").splitlines()) == 6
    whole = run_json("jobs", "list", "--tag", "pages", "--limit", "2", "--all")
    assert [job["name"] for job in whole["items"]] == [f"page-{number}" for number in reversed(range(5))]
    assert whole["nextCursor"] is None


@pytest.mark.parametrize("kind", BOTH)
def test_the_client_from_python(live: LiveServer, kind: str) -> None:
    with either(kind) as client:
        job = client.create_job("from-python", shell=["echo", "hi"], parameters={"days": 3}, tags=[kind])
        run_id = client.status(job.job_id).run_id
        assert run_id is not None
        done = client.wait(run_id, timeout=20)
        assert done.succeeded
        assert client.result(run_id) == {"did": ["echo", "hi"]}
        assert client.logs(run_id) == "did ['echo', 'hi']\nand ended\n"
        assert [line.text for line in client.follow_logs(run_id)] == ["did ['echo', 'hi']", "and ended"]
        assert client.ledger(job.job_id).balanced
        failed = client.status(client.create_job(shell="false", max_retries=0).job_id).run_id
        assert failed is not None
        assert client.wait(failed, timeout=20).status == "dead"
        assert client.result(failed) is None
        assert [found.job_id for found in client.jobs(tag=kind)] == [job.job_id]

        cron = client.create_job(python="tests.f", cron="0 0 2 * * *", timezone="Europe/Berlin", max_retries=0)
        assert cron.next_fire_at is not None
        assert client.next(cron.job_id, 2)[0] == cron.next_fire_at
        assert client.update_job(cron.job_id, version=1, priority="high").priority == "high"
        assert client.delete_job(cron.job_id).status == "cancelled"

        preview = client.preview_schedule("30 2 * * *", timezone="Europe/Berlin", after="2026-03-28T12:00:00Z", count=2)
        assert preview.description == "At 02:30 every day (Europe/Berlin)"
        assert [fire.mark for fire in preview.fires] == ["dst_gap", None]
        assert preview.fires[0].local.isoformat() == "2026-03-29T03:00:00+02:00"
        assert "does not exist" in preview.warnings[0]

        daily: JobOptions = {"name": "a", "shell": "x", "every": "1d"}
        good, bad = client.batch([daily, {"name": "b"}], idempotency_key=f"batch-{kind}")
        assert good.job_id is not None
        assert bad.error is not None
        assert client.batch([daily], idempotency_key=f"batch-{kind}")[0].job_id == good.job_id
        assert client.workers()[0].name == "w1"
        with pytest.raises(NotFound):
            client.job("j_0000000000000000000000000000")
        with pytest.raises(Invalid, match="day"):
            client.create_job(shell="x", cron="0 0 30 2 *")
    with either(kind, live.url, "wrong") as stranger, pytest.raises(Unauthorized):
        stranger.job(job.job_id)


@pytest.mark.parametrize("kind", BOTH)
def test_events_reach_the_client(live: LiveServer, kind: str) -> None:
    tag = f"events of {kind}"
    with either(kind) as client, Client() as other, ThreadPoolExecutor(1) as pool:
        me = client.me()
        assert (me.role, me.tenant, me.server.store) == ("system", "default", "sqlite")
        first = pool.submit(next, client.events(tag=tag))
        while not first.done():
            other.create_job("seen", shell="echo 1", tags=[tag])
            time.sleep(0.05)
        event = first.result()
    assert event.type.startswith("timeball.")
    assert "seen" in (event.data.get("name"), event.data.get("jobName"))


async def test_tasks_share_a_client() -> None:
    async with AsyncClient() as client:

        async def life(number: int) -> str:
            job = await client.create_job(f"task-{number}", shell=f"echo {number}", tags=["tasks"])
            run_id = (await client.status(job.job_id)).run_id
            assert run_id is not None
            lines = [line.text async for line in client.follow_logs(run_id)]
            assert (await client.wait(run_id, timeout=20)).succeeded
            return lines[0]

        assert await asyncio.gather(*map(life, range(20))) == [f"did echo {number}" for number in range(20)]
        found = {job.name async for job in client.jobs(tag="tasks")}
    assert found == {f"task-{number}" for number in range(20)}


async def test_a_wait_gives_up_in_time_and_can_be_cancelled() -> None:
    async with AsyncClient() as client:
        at = (datetime.now(UTC) + timedelta(seconds=10)).isoformat(timespec="seconds")
        run_id = (await client.status((await client.create_job(shell="x", at=at)).job_id)).run_id
        assert run_id is not None
        with pytest.raises(TimeoutError, match=f"run {run_id} is still scheduled after 0.2 s"):
            await client.wait(run_id, timeout=0.2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(client.follow_logs(run_id)), 0.2)
        assert (await client.cancel(run_id)).status == "cancelled"


def test_the_asynchronous_example_of_the_documentation_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "python.md").read_text()
    [example] = [block for block in re.findall(r"```python\n(.+?)```", page, re.DOTALL) if "AsyncClient" in block]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("did echo report\nand ended\nsucceeded\n", "")


def test_the_other_examples_in_python_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "python.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.+?)```", page, re.DOTALL) if "AsyncClient" not in block]
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("j_")


def test_the_examples_about_order_run() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "howto" / "order.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.+?)```", page, re.DOTALL) for line in block.splitlines()]
    assert len(lines) > 30
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "timeball"
        run(*arguments)
    [example] = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_why_answers_in_one_sentence_and_says_what_to_do() -> None:
    job_id = run("jobs", "create", "trained", "--shell", "x", "--runs-on", "gpu").strip()
    lines = run("why", "trained").splitlines()
    answer = "No worker offers label gpu: no worker has the label gpu."
    assert lines[:2] == [answer, "CODE\tREASON\tUNBLOCKS\tSINCE\tUNTIL\tRUN"]
    assert lines[2].startswith(f"no_fitting_worker\t{answer}\tStart a worker that does: timeball worker --label gpu")
    run_id = run_json("why", job_id)["run"]["runId"]
    assert run_json("why", run_id)["reasons"][0]["code"] == "no_fitting_worker"
    for_people = run("why", run_id, "-o", "table")
    assert for_people.startswith(f"Run {run_id} of trained is queued.\n\n{answer}\n  → Start a worker that does")
    assert f"The reasons are those of run {run_id}, which is queued." in run("why", "trained", "-o", "table")
    run("why", "nothing-of-this-name", code=4)


@pytest.mark.parametrize("kind", BOTH)
def test_clients_ask_why(live: LiveServer, kind: str) -> None:
    with either(kind) as client:
        job = client.create_job("unrunnable", shell="x", runs_on=["mars"])
        assert "no worker has the label mars" in job.warnings[0]
        why = client.why_job(job.job_id)
        assert why.run is not None
        assert client.why_run(why.run.run_id).reasons == why.run.reasons
        assert why.answer == why.run.answer == "No worker offers label mars: no worker has the label mars."


def test_creating_a_job_that_nobody_can_run_warns_on_stderr() -> None:
    result = CliRunner().invoke(timeball, ["jobs", "create", "--shell", "x", "--runs-on", "venus"])
    assert result.stderr.startswith("Warning: No worker offers label venus")
    assert result.stdout.startswith("j_")


def test_the_address_lists_of_a_tenant_are_replaced_and_removed() -> None:
    run("tenants", "create", "caller", "--allow-addresses", "10.1.0.0/16, 10.2.0.7", "--deny-addresses", "1.1.1.1")
    assert run_json("tenants", "show", "caller")["limits"]["allowAddresses"] == ["10.1.0.0/16", "10.2.0.7"]
    assert "allowAddresses 10.1.0.0/16 10.2.0.7, denyAddresses 1.1.1.1" in " ".join(run("tenants", "list").split())
    run("tenants", "update", "caller", "--jobs", "5", "--allow-addresses", "none")
    assert run_json("tenants", "show", "caller")["limits"] == {"jobs": 5, "denyAddresses": ["1.1.1.1"]}
    assert "10.0.0.1/8 has host bits set" in run(
        "tenants", "update", "caller", "--deny-addresses", "10.0.0.1/8", code=2
    )


def test_a_tenant_is_deleted_when_its_id_is_entered_again() -> None:
    run("tenants", "create", "short-lived")
    other = CliRunner().invoke(timeball, ["tenants", "delete", "short-lived"], input="long-lived\n")
    assert other.exit_code == 2, other.output
    assert "nothing was deleted" in other.stderr
    assert run_json("tenants", "show", "short-lived")["state"] == "active"
    asked = CliRunner().invoke(timeball, ["tenants", "delete", "short-lived", "--wait"], input="short-lived\n")
    assert asked.exit_code == 0, asked.output
    assert "there is no tenant" in run("tenants", "show", "short-lived", code=4)

"""Jobs declared in files: planned, applied, exported and imported, over real HTTP with the real API and store."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.api import ADMIN
from tests.support.live_server import LiveServer
from timeball import Client
from timeball.cli.root import timeball
from timeball.client.http_sync import AnswerInterrupted, HttpTransport, Incoming, Outgoing

CRONTAB = Path(__file__).parents[1] / "support" / "crontab.txt"

NIGHTLY = """\
set: {set}
defaults:
  retry: {{maxRetries: 5}}
  schedule: {{timezone: Europe/Berlin}}
jobs:
  - name: {set}-etl
    task: {{kind: shell, command: [python3, etl.py]}}
    schedule: {{type: cron, expression: "0 2 * * *"}}
    timeout: 30m
  - name: {set}-ping
    task: {{kind: http, url: "https://example.org/ping"}}
    schedule: {{type: interval, expression: 15m}}
"""


class Recorder(HttpTransport):
    """Knows what was sent, and can lose the answer to a request that the server has carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Outgoing] = []
        self.lose: list[str] = []

    def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        self.sent.append(outgoing)
        answer = super().send(server, outgoing, timeout)
        if self.lose and outgoing.method == self.lose[0]:
            self.lose.pop(0)
            raise AnswerInterrupted("lost")
        return answer

    @property
    def writes(self) -> list[str]:
        return [each.method for each in self.sent if each.method != "GET" and ":preview" not in each.target]


@pytest.fixture(autouse=True)
def wire(environment_of_live: None, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    del environment_of_live
    recorder = Recorder()
    monkeypatch.setattr("timeball.cli.session.make_transport", lambda: recorder)
    return recorder


@pytest.fixture
def client(live: LiveServer) -> Iterator[Client]:
    with Client(live.url, ADMIN) as client:
        yield client


def invoke(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(timeball, arguments, input=stdin, prog_name="timeball")


def run(*arguments: str, code: int = 0, stdin: str | None = None) -> str:
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "-o", "json", code=code))


def write(text: str, name: str = "jobs.yaml") -> None:
    Path(name).write_text(text)


def the(client: Client, name: str) -> Any:
    [job] = [job for job in client.jobs(name=name) if job.status != "cancelled"]
    return job


def test_a_plan_is_applied_once_and_then_there_is_nothing_to_do(client: Client, wire: Recorder) -> None:
    write(NIGHTLY.format(set="once"))
    planned = run("plan", "jobs.yaml", code=2)
    assert "+ once-etl  (jobs.yaml:6)" in planned
    assert "At 02:00 every day (Europe/Berlin); first fire t" in planned
    assert planned.splitlines()[-1] == "2 to create, 0 unchanged"
    assert wire.writes == [], "a plan reads only"

    assert run("apply", "jobs.yaml").splitlines()[-1] == "2 created, 0 unchanged"
    etl = the(client, "once-etl")
    assert etl.retry["maxRetries"] == 5
    assert etl.schedule["timezone"] == "Europe/Berlin"
    assert etl.tags == ["declared:once"]

    wire.sent.clear()
    assert run("apply", "jobs.yaml") == "2 unchanged\n"
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n"
    assert wire.writes == []
    assert the(client, "once-etl").version == etl.version


def test_a_changed_schedule_says_which_fires_move_and_that_none_is_dropped(client: Client) -> None:
    write(NIGHTLY.format(set="moves").replace("Europe/Berlin", "UTC"))
    run("apply", "jobs.yaml")
    write(NIGHTLY.format(set="moves").replace("Europe/Berlin", "UTC").replace('"0 2 *', '"0 3 *'))
    [item] = run_json("plan", "jobs.yaml", code=2)["items"]
    assert item["changes"] == [{"field": "schedule.expression", "old": "0 2 * * *", "new": "0 3 * * *"}]
    fires = item["fires"]
    assert all(re.search("T02:00", each["from"]) and re.search("T03:00", each["to"]) for each in fires["moved"])
    assert len(fires["moved"]) >= 7
    tomorrow = [fire.isoformat() for fire in client.next(the(client, "moves-etl").job_id, 2)]
    assert {each["from"].replace("Z", "+00:00") for each in fires["moved"]} >= set(tomorrow[1:])
    assert fires["dropped"] == []
    assert "moves from 02:00 UTC to 03:00 UTC" in fires["summary"]

    run("apply", "jobs.yaml")
    job = the(client, "moves-etl")
    assert job.schedule["expression"] == "0 3 * * *"
    assert all(fire.hour == 3 for fire in client.next(job.job_id, 5))
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n"


def test_a_calendar_shows_which_fires_it_takes_away(client: Client) -> None:
    write(NIGHTLY.format(set="closed"))
    run("apply", "jobs.yaml")
    tomorrow = client.next(the(client, "closed-etl").job_id, 2)
    run("calendars", "set", "freeze", "--date", f"{tomorrow[1]:%Y-%m-%d}")
    write(NIGHTLY.format(set="closed").replace("    timeout: 30m", "    calendars: [freeze]"))
    [item] = run_json("plan", "jobs.yaml", code=2)["items"]
    assert [change["field"] for change in item["changes"]] == ["timeout", "calendars", "excluded"]
    assert item["fires"]["dropped"] == [tomorrow[1].strftime("%Y-%m-%dT%H:%M:%SZ")]
    run("apply", "jobs.yaml")
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n"


def test_a_job_keeps_its_slot_in_a_window_when_something_else_changes(client: Client) -> None:
    text = (
        "set: slot\njobs: [{name: slot, task: {kind: shell, command: x}, timeout: TIME,"
        " schedule: {type: window, from: 01:00, to: 05:00}, endAt: '2099-01-01T00:00:00Z'}]"
    )
    write(text.replace("TIME", "1m"))
    assert "its slot in the window is chosen when it is applied" in run("plan", "jobs.yaml", code=2)
    run("apply", "jobs.yaml")
    slot = client.next(the(client, "slot").job_id, 1)
    assert run("plan", "jobs.yaml") == "nothing to do, 1 unchanged\n"
    write(text.replace("TIME", "2m").replace("2099", "2098"))
    [item] = run_json("plan", "jobs.yaml", code=2)["items"]
    assert item["fires"]["counts"] == {"moved": 0, "added": 0, "dropped": 0, "kept": item["fires"]["counts"]["kept"]}
    run("apply", "jobs.yaml")
    assert client.next(the(client, "slot").job_id, 1) == slot


def test_what_leaves_the_files_is_told_and_cancelled_only_when_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(NIGHTLY.format(set="leaves"))
    run("apply", "jobs.yaml")
    write(NIGHTLY.format(set="leaves").partition("  - name: leaves-ping")[0])
    assert "? leaves-ping  no longer declared; --prune would cancel it" in run("plan", "jobs.yaml")
    run("apply", "jobs.yaml")
    assert the(client, "leaves-ping").status == "scheduled"

    refused = invoke("apply", "jobs.yaml", "--prune")
    assert (refused.exit_code, "confirm this with --yes" in refused.stderr) == (2, True)
    with monkeypatch.context() as patched:
        terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
        patched.setattr("timeball.cli.declare.manifests.sys", terminal)
        asked = invoke("apply", "jobs.yaml", "--prune", stdin="n\n")
    assert "Cancel 1 job and all live runs permanently (leaves-ping)? [y/N]" in asked.output
    assert the(client, "leaves-ping").status == "scheduled"
    assert "- leaves-ping  no longer declared; it will be cancelled" in run("plan", "jobs.yaml", "--prune", code=2)
    assert run("apply", "jobs.yaml", "--prune", "--yes").splitlines() == [
        "- leaves-ping  cancelled",
        "1 cancelled, 1 unchanged",
    ]
    [gone] = client.jobs(name="leaves-ping")
    assert gone.status == "cancelled"

    write(NIGHTLY.format(set="leaves"))
    run("apply", "jobs.yaml")
    assert the(client, "leaves-ping").job_id != gone.job_id, "declared again, it is made anew"
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n"


@pytest.mark.parametrize("set_name", ["again", None])
def test_a_job_that_was_cancelled_by_hand_is_made_anew_also_if_it_is_another_one_now(
    client: Client, set_name: str | None
) -> None:
    name = set_name or "again-loose"
    text = NIGHTLY.format(set=name) if set_name else NIGHTLY.format(set=name).partition("\n")[2]
    write(text)
    run("apply", "jobs.yaml")
    seen = set()
    for timeout in ("30m", "45m", "30m"):
        job = the(client, f"{name}-etl")
        seen.add(job.job_id)
        client.update_job(job.job_id, tags=[])  # nobody can tell any more that it belonged to the set
        client.delete_job(job.job_id)
        write(text.replace("30m", timeout))
        assert run("apply", "jobs.yaml").splitlines()[-1] == "1 created, 1 unchanged"
        assert the(client, f"{name}-etl").timeout == timeout
    assert the(client, f"{name}-etl").job_id not in seen


def test_two_who_apply_different_files_at_once_make_one_job(client: Client) -> None:
    from timeball.manifests import apply
    from timeball.manifests import plan as manifest_plan
    from timeball.manifests.files import read
    from timeball.manifests.remote import RemoteServer
    from timeball.system import wall

    plans = []
    for number, text in enumerate((NIGHTLY, NIGHTLY.replace("30m", "45m"), NIGHTLY)):
        write(text.format(set="race"), f"{number}.yaml")
        plans.append(manifest_plan.make(read([Path(f"{number}.yaml")]), RemoteServer(client), wall()))
    done = [[each.error for each in apply.apply(plan, RemoteServer(client))] for plan in plans]
    assert [len(list(client.jobs(name=f"race-{name}"))) for name in ("etl", "ping")] == [1, 1]
    assert done[0] == done[2] == [None, None], "who wants the same gets the same"
    assert "another request created it" in str(done[1][0])


def test_files_that_name_no_set_only_see_to_what_they_name(client: Client) -> None:
    write(NIGHTLY.format(set="loose").partition("\n")[2])
    run("apply", "jobs.yaml")
    assert the(client, "loose-etl").tags == []
    assert run("apply", "jobs.yaml") == "2 unchanged\n"
    assert "write `set: NAME`" in invoke("plan", "jobs.yaml", "--prune").stderr

    joined = run("plan", "jobs.yaml", "--set", "loose", code=2)
    assert "set: none → loose" in joined
    run("apply", "jobs.yaml", "--set", "loose")
    assert the(client, "loose-etl").tags == ["declared:loose"]
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n", "who names no set leaves the marks alone"


def test_a_job_belongs_to_one_set(client: Client) -> None:
    write(NIGHTLY.format(set="mine"))
    run("apply", "jobs.yaml")
    refused = invoke("apply", "jobs.yaml", "--set", "yours")
    assert refused.exit_code == 1
    assert "jobs.yaml:6: mine-etl: it belongs to the set 'mine'" in refused.stderr
    assert the(client, "mine-etl").tags == ["declared:mine"]
    run("apply", "jobs.yaml", "--set", "yours", "--take-over")
    assert the(client, "mine-etl").tags == ["declared:yours"]


def test_a_name_that_two_jobs_have_is_an_error_that_names_them(client: Client) -> None:
    one, other = (client.create_job("twin", shell="true", cron="0 5 * * *").job_id for _ in range(2))
    write("jobs: [{name: twin, task: {kind: shell, command: x}, schedule: {type: cron, expression: '@daily'}}]")
    refused = invoke("plan", "jobs.yaml")
    assert refused.exit_code == 1
    assert "2 jobs have this name on the server" in refused.stderr
    assert one in refused.stderr
    assert other in refused.stderr


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_done(client: Client, wire: Recorder) -> None:
    Path("jobs").mkdir()
    write(NIGHTLY.format(set="wrong"), "jobs/good.yaml")
    write(
        "jobs:\n"
        "  - name: wrong-a\n"
        "    task: {kind: shel, command: x}\n"
        "    schedule: {type: cron, expression: '0 0 30 2 *'}\n"
        "    timeout: soon\n"
        "  - name: wrong-etl\n"
        "    task: {kind: shell, command: x}\n"
        "    schedule: {type: interval, expression: 5m}\n"
        "  - name: wrong-b\n"
        "    taskId: nobody-knows\n",
        "jobs/wrong.yml",
    )
    write('[[jobs]]\nname = "wrong-c"\n\n[jobs.task]\nkind = "http"\nurl = "ftp://x"\n', "jobs/wrong.toml")
    refused = invoke("apply", "jobs")
    assert refused.exit_code == 1
    told = sorted(" ".join(line.split(": ")[:2]) for line in refused.stderr.splitlines()[:-1])
    assert told == [
        "jobs/wrong.toml:1 jobs[0].schedule",
        "jobs/wrong.toml:6 jobs[0].task.url",
        "jobs/wrong.yml:3 jobs[0].task.kind",
        "jobs/wrong.yml:4 jobs[0].schedule.expression",
        "jobs/wrong.yml:5 jobs[0].timeout",
        "jobs/wrong.yml:6 wrong-etl",
        "jobs/wrong.yml:9 jobs[2].schedule",
    ]
    assert "7 problems in these files; nothing was changed" in refused.stderr
    assert wire.sent == []
    assert not list(client.jobs(tag="declared:wrong"))


def test_a_task_that_is_not_registered_and_a_schedule_that_is_over_are_found_before_anything_is_done(
    wire: Recorder,
) -> None:
    write(
        "jobs:\n"
        "  - {name: early-a, taskId: nobody, calendars: [never], schedule: {type: cron, expression: '@daily'}}\n"
        "  - {name: early-b, task: {kind: shell, command: x}, endAt: '2020-01-01T00:00:00Z',"
        " schedule: {type: cron, expression: '@daily'}}\n"
    )
    refused = invoke("apply", "jobs.yaml")
    assert refused.exit_code == 1
    assert "jobs.yaml:2: early-a: there is no registered task 'nobody'" in refused.stderr
    assert "jobs.yaml:2: early-a: there is no calendar 'never'" in refused.stderr
    assert "jobs.yaml:3: early-b: this schedule never fires" in refused.stderr
    assert wire.writes == []


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_answer_that_got_lost_makes_no_job_twice_and_overwrites_nothing(
    client: Client, wire: Recorder, method: str
) -> None:
    name = f"lost-{method.lower()}"
    write(NIGHTLY.format(set=name))
    if method == "PATCH":
        run("apply", "jobs.yaml")
        write(NIGHTLY.format(set=name).replace("30m", "45m"))
    wire.lose = [method]
    run("apply", "jobs.yaml")
    assert not wire.lose
    assert run("plan", "jobs.yaml") == "nothing to do, 2 unchanged\n"
    assert the(client, f"{name}-etl").timeout == ("45m" if method == "PATCH" else "30m")


def test_an_edit_that_comes_between_is_not_overwritten(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeball.manifests import apply

    write(NIGHTLY.format(set="between"))
    run("apply", "jobs.yaml")
    write(NIGHTLY.format(set="between").replace("30m", "45m").replace("15m}", "20m}"))
    job = the(client, "between-etl")
    really = apply.apply

    def edited_first(*arguments: Any) -> Any:
        client.update_job(job.job_id, priority="high")
        return really(*arguments)

    monkeypatch.setattr(apply, "apply", edited_first)
    refused = invoke("apply", "jobs.yaml")
    assert refused.exit_code == 1
    assert "! between-etl: another request changed it after it was read" in refused.stderr
    assert refused.stdout.splitlines()[-1] == "1 changed, 1 refused, 0 unchanged", "the others are applied"
    now = the(client, "between-etl")
    assert (now.priority, now.timeout) == ("high", "30m")


def test_who_breaks_off_in_the_middle_does_the_rest_the_next_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeball.manifests import apply

    write(NIGHTLY.format(set="broken"))
    really = apply.apply

    def first_only(*arguments: Any) -> Any:
        steps = really(*arguments)
        yield next(steps)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(apply, "apply", first_only)
        run("apply", "jobs.yaml", code=130)
    first = the(client, "broken-etl")
    assert run("apply", "jobs.yaml").splitlines()[-1] == "1 created, 1 unchanged"
    assert the(client, "broken-etl") == first


def test_a_paused_job_is_paused_before_it_could_fire(client: Client, wire: Recorder) -> None:
    text = (
        "set: asleep\njobs: [{name: asleep, paused: true, task: {kind: shell, command: x},"
        " schedule: {type: cron, expression: '* * * * * *'}, endAt: '2099-01-01T00:00:00Z'}]"
    )
    write(text)
    run("apply", "jobs.yaml")
    job = the(client, "asleep")
    assert job.status == "paused"
    assert job.start_at is None
    assert job.end_at is not None
    assert client.ledger(job.job_id).due == 0
    wire.sent.clear()
    assert run("apply", "jobs.yaml") == "1 unchanged\n"
    assert wire.writes == []

    write(text.replace("paused: true", "paused: false").replace("* * * * * *", "0 4 * * *"))
    planned = run("plan", "jobs.yaml", code=2)
    assert "paused: true → false" in planned
    run("apply", "jobs.yaml")
    assert the(client, "asleep").status == "scheduled"
    write(text.replace("paused: true, ", "").replace("* * * * * *", "0 4 * * *"))
    client.pause(job.job_id, "by hand")
    assert run("plan", "jobs.yaml") == "nothing to do, 1 unchanged\n", "what files do not say is left to people"


def test_a_paused_job_that_broke_off_half_way_has_not_fired_and_is_made_whole(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "set: half\njobs: [{name: half, paused: true, task: {kind: shell, command: x},"
        " schedule: {type: cron, expression: '* * * * * *'}}]"
    )
    with monkeypatch.context() as patched:
        patched.setattr(
            "timeball.manifests.remote.RemoteServer.pause", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        run("apply", "jobs.yaml", code=130)
    job = the(client, "half")
    assert (job.status, client.ledger(job.job_id).due) == ("scheduled", 0)
    assert job.next_fire_at is not None
    assert job.next_fire_at.year == 9000
    run("apply", "jobs.yaml")
    job = the(client, "half")
    assert (job.status, job.start_at, client.ledger(job.job_id).due) == ("paused", None, 0)
    assert run("apply", "jobs.yaml") == "1 unchanged\n"


def test_what_looks_like_a_secret_is_not_shown() -> None:
    text = (
        "set: hush\njobs: [{name: hush, task: {kind: http, url: 'http://127.0.0.1:9/', headers: {Authorization: ONE}},"
        " schedule: {type: cron, expression: '@daily'}, parameters: {token: ONE, day: 1}}]"
    )
    write(text)
    run("apply", "jobs.yaml")
    write(text.replace("ONE", "TWO").replace("day: 1", "day: 2"))
    for shown in (run("plan", "jobs.yaml", code=2), run("plan", "jobs.yaml", "-o", "json", code=2)):
        assert "ONE" not in shown
        assert "TWO" not in shown
        assert "•••" in shown
        assert "day" in shown


def test_applying_an_edit_never_fires_a_past_instant_again(client: Client) -> None:
    text = (
        "jobs: [{name: past, task: {kind: shell, command: echo}, catchUp: all, timeout: TIME,"
        " schedule: {type: date, expression: '2020-01-01T00:00:00Z'}}]"
    )
    write(text.replace("TIME", "1m"))
    run("apply", "jobs.yaml")
    job = the(client, "past")
    run_id = client.status(job.job_id).run_id
    assert run_id is not None
    assert client.wait(run_id, timeout=30).status == "succeeded"
    for time in ("2m", "3m"):
        write(text.replace("TIME", time).replace("00:00:00Z", "00:00:01Z" if time == "3m" else "00:00:00Z"))
        run("apply", "jobs.yaml")
    assert run("apply", "jobs.yaml") == "1 unchanged\n"
    runs = list(client.runs(job_id=job.job_id))
    assert len({each.fire_time for each in runs}) == len(runs), "no instant twice"


def test_a_crontab_of_forty_lines_is_imported_and_importing_it_again_changes_nothing(
    client: Client, wire: Recorder
) -> None:
    first = invoke("import", "crontab", str(CRONTAB), "--tz", "Europe/Berlin", "--set", "cron1")
    assert first.exit_code == 1, "four lines cannot be imported"
    assert "Not imported, line 28: @reboot is not supported" in first.stderr
    assert first.stdout.splitlines()[-1] == "40 created, 0 unchanged"
    assert all("first fire" in line for line in first.stdout.splitlines()[:-1])
    assert len(list(client.jobs(tag="declared:cron1"))) == 40
    bell = the(client, "opening-bell")
    assert bell.schedule == {"type": "cron", "expression": "30 9 * * 1-5", "timezone": "America/New_York"}

    wire.sent.clear()
    again = invoke("import", "crontab", str(CRONTAB), "--tz", "Europe/Berlin", "--set", "cron1")
    assert again.stdout == "40 unchanged\n"
    assert wire.writes == []

    for file in ("cron.yaml", "cron.toml"):
        run("import", "crontab", str(CRONTAB), "--tz", "Europe/Berlin", "--set", "cron1", "--to", file, code=1)
        assert run("plan", file) == "nothing to do, 40 unchanged\n"

    text = Path("cron.yaml").read_text()
    assert text.count("0 2 * * *") == 1
    write(text.replace("0 2 * * *", "0 3 * * *"), "cron.yaml")
    [item] = run_json("plan", "cron.yaml", code=2)["items"]
    assert item["name"] == "nightly-database-backup"
    assert item["fires"]["dropped"] == []
    assert len(item["fires"]["moved"]) >= 7
    run("apply", "cron.yaml")
    wire.sent.clear()
    assert run("apply", "cron.yaml") == "40 unchanged\n"
    assert wire.writes == []


MANIFEST = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "30 4 * * *"
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          containers: [{name: report, image: report, command: [report, --all]}]
"""


def test_cronjobs_are_imported_for_a_machine_and_under_names_of_their_own(client: Client) -> None:
    write(MANIFEST, "cronjobs.yaml")
    options = ("import", "kubernetes", "cronjobs.yaml", "--prefix", "k8s-", "--runs-on", "web1")
    shown = run_json(*options, "--dry-run")
    assert [item["name"] for item in shown["items"]] == ["k8s-report"]
    assert shown["remarks"][0]["detail"].startswith(
        "report: spec.jobTemplate.spec.template.spec.containers[0].image is not"
    )
    assert not list(client.jobs(name="k8s-report"))
    run(*options)
    job = the(client, "k8s-report")
    assert (job.status, job.runs_on, job.catch_up) == ("paused", ["web1"], "last")
    assert job.task == {"kind": "shell", "command": ["report", "--all"]}
    assert run(*options) == "1 unchanged\n"


def test_what_is_exported_is_unchanged(client: Client) -> None:
    run("jobs", "create", "exported", "--shell", "echo", "--cron", "0 4 * * *", "--tag", "on", "--timeout", "1h")
    run("jobs", "pause", "exported")
    run("jobs", "create", "exported-once", "--shell", "echo", "--at", "1h")
    run("jobs", "pause", "exported-once")
    text = run("export")
    assert "  - name: exported\n" in text
    assert re.fullmatch(r"nothing to do, \d+ unchanged\n", run("plan", "-", stdin=text))
    run("export", "--to", "all.toml")
    assert "[[jobs]]" in Path("all.toml").read_text()

"""Crontabs and CronJobs become jobs: everything in them is carried over, or reported."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from timeball.manifests import parse
from timeball.manifests.importing import crontab, kubernetes, translation
from timeball.manifests.importing.translation import Translation

CRONTAB = Path(__file__).parents[2] / "support" / "crontab.txt"


def cron(text: str, **options: Any) -> Translation:
    found = crontab.translate(text, **options)
    translation.declared(found, "crontab", None)
    return found


def job(text: str, **options: Any) -> Any:
    [found] = cron(text, **options).jobs
    return found.document


def remarks(found: Translation) -> list[str]:
    return [("lost: " if remark.lost else "") + str(remark) for remark in found.remarks]


def test_a_real_crontab() -> None:
    found = cron(CRONTAB.read_text(), timezone="Europe/Berlin")
    jobs = {each.line: each.document for each in found.jobs}
    assert len(jobs) == 40
    assert [remark.line for remark in found.remarks if remark.lost] == [28, 61, 62, 63]
    assert jobs[14] == {
        "name": "nightly-database-backup",
        "description": "Nightly database backup",
        "task": {
            "kind": "shell",
            "command": ["/bin/bash", "-c", "/usr/local/bin/backup.sh --full >> /var/log/backup.log 2>&1"],
            "env": {
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/home/deploy",
                "RAILS_ENV": "production",
            },
            "cwd": "/home/deploy",
        },
        "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
    }
    assert jobs[19]["description"] == "Rotate the application logs\n(asked for by the on-call team)"
    assert jobs[22]["name"] == "bundle-exec", "a line taken out of service names nothing"
    assert jobs[53]["schedule"]["timezone"] == "America/New_York"
    assert [jobs[line].get("jitter") for line in (53, 55, 59)] == [None, "15m", None]
    assert [jobs[line]["name"] for line in (15, 66)] == ["backup", "backup-2"]
    assert jobs[59]["name"] == "grusse-an-koln"
    assert "MAILTO" not in jobs[14]["task"]["env"]


def test_bytes_that_are_no_utf_8_cost_only_their_line() -> None:
    text = b"# L\xf6schen\n0 0 * * * one\n0 0 * * * zw\xf6lf\n# \xc3\xb6l\n0 0 * * * two\n".decode(
        "utf-8", "surrogateescape"
    )
    found = cron(text)
    assert [each.document.get("description") for each in found.jobs] == ["Löschen", "öl"]
    assert remarks(found) == ["lost: line 3: it is not UTF-8; save the file as UTF-8"]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("echo 100\\%", "echo 100%"),
        ("cat%one%two", "printf '%s\\n' one two | {\ncat\n}"),
        ("cat%one%", "printf '%s\\n' one | {\ncat\n}"),
        ("cat%it's \\% of%%all", "printf '%s\\n' 'it'\"'\"'s % of' '' all | {\ncat\n}"),
        ("echo # not a comment", "echo # not a comment"),
    ],
)
def test_percent_signs_are_what_they_are_for_cron(command: str, script: str) -> None:
    assert job(f"0 0 * * * {command}")["task"]["command"] == script


def test_standard_input_arrives_and_the_status_is_the_commands() -> None:
    command = job("0 0 * * * cat; exit 3 # done%it's%100\\%")["task"]["command"]
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("it's\n100%\n", 3)


def test_the_environment_is_that_of_the_lines_above() -> None:
    found = cron(
        "A=1\n0 0 * * * one\nA=\"2 3\"\nB = '4'\nSHELL=/bin/sh\n0 0 * * * two\nSHELL=/bin/zsh\n0 0 * * * three\n"
    )
    assert [each.document["task"] for each in found.jobs] == [
        {"kind": "shell", "command": "one", "env": {"A": "1"}},
        {"kind": "shell", "command": "two", "env": {"A": "2 3", "B": "4"}},
        {"kind": "shell", "command": ["/bin/zsh", "-c", "three"], "env": {"A": "2 3", "B": "4"}},
    ]


def test_a_system_crontab_says_as_whom_its_lines_run() -> None:
    found = cron(
        "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n@daily www-data php x.php\n", user_column=True
    )
    assert [(each.document["name"], each.document["task"]["command"]) for each in found.jobs] == [
        ("run-parts-cron-hourly", "cd / && run-parts --report /etc/cron.hourly"),
        ("x", "php x.php"),
    ]
    assert remarks(found) == [
        "line 1: cron runs it as root (lines 1); Timeball runs it as the account of its worker",
        "line 2: cron runs it as www-data (lines 2); Timeball runs it as the account of its worker",
    ]
    assert remarks(cron("0 0 * * * root /bin/x")) == [
        "line 1: 'root' looks like a user: system crontabs need --user-column"
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("@reboot x", "lost: line 1: @reboot is not supported"),
        ("@sometimes x", "lost: line 1: "),
        ("0~59 * * * * x", "for a random time use H instead of ~"),
        ("* * * *", "lost: line 1: the line is neither five fields and a command"),
        ("0 0 * * *  %only input", "lost: line 1: the command is empty"),
        ("CRON_TZ=Mars/Base\n0 0 * * * x", "lost: line 2: CRON_TZ of line 1: there is no time zone 'Mars/Base'"),
        ("MAILTO=me@example.org", "line 1: MAILTO=me@example.org: Timeball does not send mail"),
        ("PATH=$HOME/bin", "line 1: PATH=$HOME/bin is taken literally"),
        ("TIMEBALL_RUN_ID=1", "line 1: 'TIMEBALL_RUN_ID' is left out: it cannot be set"),
        ("0 0 * * * ./run", "line 1: cron starts it in the home folder"),
        ("RANDOM_DELAY=long", "line 1: RANDOM_DELAY=long is left out: it is not a number of minutes"),
    ],
)
def test_what_is_not_carried_over_is_told_with_its_line(line: str, told: str) -> None:
    assert any(told in remark for remark in remarks(cron(line)))


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("sudo -u postgres pg_dump shop", "sudo"),
        ("cd /srv && nice -n 5 /usr/bin/sudo ./x", "sudo"),
        ("timeout 60 su - deploy -c 'backup'", "su"),
        ("df -h | mail -s disk me@example.org", "mail"),
        ("ping -c1 gw || (echo down; mount -a) & doas reboot", "ping, mount and doas"),
        ("X=$(sudo -n true) y", "sudo"),
        ("if ! sudo -n true; then echo no; fi", "sudo"),
    ],
)
def test_programs_that_gain_privileges_are_named(command: str, programs: str) -> None:
    found = [remark for remark in remarks(cron(f"0 0 * * * {command}")) if "privileges" in remark]
    assert len(found) == 1
    assert found[0].startswith(f"line 1: {programs} ")
    assert "--new-privs" in found[0]


@pytest.mark.parametrize(
    "command", ["echo sudo", "/opt/sudoku", "grep -q ping /var/log/x", "ping-check --su", "'sudo x'"]
)
def test_words_that_are_no_programs_are_not_named(command: str) -> None:
    assert not any("privileges" in remark for remark in remarks(cron(f"0 0 * * * {command}")))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /srv && nice -n 19 /usr/local/bin/backup.sh --full", "backup"),
        ("A=1 B='2 3' /opt/x/run-it", "run-it"),
        ("[ -x /usr/bin/certbot ] && certbot -q renew", "certbot-renew"),
        ("sudo -u postgres pg_dump shop", "pg-dump-shop"),
        ("/usr/bin/flock -n /tmp/l -c 'x'", "x"),
        ("(cd /x; ./y.sh)", "y"),
        ("python3 -m http.server", "python3"),
        ("'unbalanced", "unbalanced"),
    ],
)
def test_a_command_names_its_job(command: str, name: str) -> None:
    assert crontab.name_of(command) == name


# --- Kubernetes ---------------------------------------------------------------------------------------------------

MANIFEST = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  namespace: shop
  uid: 7c9e
  labels: {app: shop, tier: batch}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    team: blue
spec:
  schedule: "30 4 * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  suspend: true
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 600
      template:
        spec:
          restartPolicy: OnFailure
          serviceAccountName: reporter
          terminationGracePeriodSeconds: 10
          containers:
            - name: report
              image: registry.example.org/report:1
              command: [python3, -m, report]
              args: ["--day", "$(DAY)", "$$HOME", "$(UNKNOWN)"]
              workingDir: /srv
              env:
                - {name: DAY, value: "1"}
                - {name: DAYS, value: "$(DAY)2"}
                - {name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: k}}}
              resources:
                requests: {cpu: 250m, memory: 64Mi}
                limits: {memory: 128Mi}
              volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, emptyDir: {}}]
"""


def manifests(text: str) -> Translation:
    found = kubernetes.translate(parse.read("cronjobs.yaml", text.encode()))
    translation.declared(found, "cronjobs.yaml", None)
    return found


def test_a_cronjob() -> None:
    found = manifests(MANIFEST)
    [each] = found.jobs
    assert each.document == {
        "name": "shop/report",
        "task": {
            "kind": "shell",
            "command": ["python3", "-m", "report", "--day", "1", "$HOME", "$(UNKNOWN)"],
            "env": {"DAY": "1", "DAYS": "12"},
            "cwd": "/srv",
        },
        "schedule": {"type": "cron", "expression": "30 4 * * *", "timezone": "Europe/Berlin"},
        "overlap": "skip",
        "startDeadline": 200,
        "paused": True,
        "retry": {"maxRetries": 2},
        "timeout": 600,
        "grace": 10,
        "tags": ["app=shop", "tier=batch"],
        "resources": {"cpu": 0.25, "memoryMb": 64},
    }
    told = {remark.detail.split(" ")[1] for remark in found.remarks}
    pod = "spec.jobTemplate.spec.template.spec"
    assert told == {
        "metadata.annotations",
        "spec.successfulJobsHistoryLimit",
        f"{pod}.serviceAccountName",
        f"{pod}.volumes",
        f"{pod}.containers[0].image",
        f"{pod}.containers[0].env.PASSWORD",
        f"{pod}.containers[0].resources.limits",
        f"{pod}.containers[0].volumeMounts",
    }


def test_several_manifests_and_what_is_no_cronjob() -> None:
    plain = MANIFEST.replace("suspend: true", "suspend: false").replace("namespace: shop", "namespace: default")
    one, other = (plain.replace("name: report\n  name", f"name: {name}\n  name") for name in ("a", "b"))
    found = manifests(f"{one}---\n{other.replace('Forbid', 'Replace')}---\nkind: Service\n")
    assert [each.document["name"] for each in found.jobs] == ["a", "b"]
    assert [each.document["overlap"] for each in found.jobs] == ["skip", "cancel_previous"]
    assert "paused" not in found.jobs[0].document
    assert "a Service is not a CronJob, and is ignored" in remarks(found)[-1]
    listed = "kind: List\nitems:\n- " + MANIFEST.replace("\n", "\n  ")
    assert [each.document["name"] for each in manifests(listed).jobs] == ["shop/report"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("command: [python3, -m, report]", "", "the command is in the image 'registry.example.org/report:1'"),
        (
            "            - name: report\n",
            "            - {name: sidecar}\n            - name: report\n",
            "it has 2 containers",
        ),
        ("          volumes:", "          initContainers: [{name: x}]\n          volumes:", "it has initContainers"),
        ("Forbid", "Sometimes", "spec.concurrencyPolicy 'Sometimes' is not one of Allow, Forbid, Replace"),
        ('"30 4 * * *"', '"@every soon"', "spec.schedule: 'soon' is not a duration"),
        ('"30 4 * * *"', '"61 4 * * *"', "minute '61': 61 is out of range"),
        ("  name: report\n  namespace", "  namespace", "it has no metadata.name"),
    ],
)
def test_a_cronjob_that_cannot_be_a_job_is_told_with_the_reason(old: str, new: str, told: str) -> None:
    assert old in MANIFEST
    found = manifests(MANIFEST.replace(old, new, 1))
    assert not found.jobs
    assert any(told in remark.detail for remark in found.remarks if remark.lost)


def test_intervals_and_zones_inside_the_schedule() -> None:
    [each] = manifests(
        MANIFEST.replace('"30 4 * * *"', '"@every 1h30m"').replace("  timeZone: Europe/Berlin\n", "")
    ).jobs
    assert each.document["schedule"] == {"type": "interval", "expression": "1h30m"}
    [each] = manifests(MANIFEST.replace('"30 4 * * *"', '"CRON_TZ=Asia/Tokyo 30 4 * * *"')).jobs
    assert each.document["schedule"]["timezone"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        ("pg_dump db > $HOME/backup.sql", True),
        ('pg_dump db >> "${HOME}/backup.sql" 2>&1', True),
        ("date > ~/now.txt; true", True),
        ("pg_dump db > $HOME/backups/db.sql", False),
        ("pg_dump db > /srv/backup.sql", False),
        ("cat ~/now.txt", False),
    ],
)
def test_a_redirection_to_the_home_folder_itself_is_told(command: str, warned: bool) -> None:
    told = any("directly in the home folder" in remark for remark in remarks(cron(f"0 2 * * * {command}")))
    assert told is warned

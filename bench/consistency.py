"""Checks the database after each run by counting: no job is lost, none ran twice, and no run is left."""

from __future__ import annotations

from bench.deployment import Deployment
from bench.recorder import Recorder

_EXPECTED = {
    "jobs": "SELECT count(*) FROM jobs",
    "runs in the history": "SELECT count(*) FROM history",
    "jobs with a run in the history": "SELECT count(DISTINCT job_id) FROM history",
    "runs that succeeded": "SELECT count(*) FROM history WHERE status = 'succeeded'",
    "fires in the ledger": "SELECT coalesce(sum(fires), 0) FROM history WHERE verdict IN ('on_time', 'late')",
}


def differences(running: Deployment, *, filled: int = 0) -> list[str]:
    """Return the differences between the counts and what they should be after all submitted jobs have run. `filled`
    jobs were there before and never ran.
    """
    submitted = running.submitted
    found = {name: running.count(sql) - (filled if name == "jobs" else 0) for name, sql in _EXPECTED.items()}
    wrong = [
        f"{count:,} {name}, but {submitted:,} jobs submitted" for name, count in found.items() if count != submitted
    ]
    left = running.count("SELECT count(*) FROM runs")
    return wrong + ([f"{left:,} runs are left"] if left else [])


def check(notebook: Recorder, running: Deployment, *, filled: int = 0) -> None:
    for difference in differences(running, filled=filled):
        notebook.check(False, f"{running.store}, worker {running.worker}: {difference}")

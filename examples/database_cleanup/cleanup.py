"""Deletes sessions that are older than `keepDays`, in batches, so that no lock is held for long."""

import contextlib
import json
import os
import sqlite3

parameters = json.loads(os.environ["TIMEBALL_PARAMETERS"])
BATCH = 100

with contextlib.closing(sqlite3.connect(parameters["database"])) as database:
    database.execute("CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, age_days INTEGER)")
    database.executemany("INSERT INTO sessions (age_days) VALUES (?)", [(age,) for age in range(365)])
    database.commit()
    deleted = 0
    while True:
        done = database.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE age_days > ? LIMIT ?)",
            [parameters["keepDays"], BATCH],
        )
        database.commit()
        deleted += done.rowcount
        if done.rowcount < BATCH:
            break

print(f"deleted {deleted} sessions")
print("::result", json.dumps({"deleted": deleted}))

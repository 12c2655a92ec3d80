"""Reads orders, keeps those of the last days, and loads them into a table."""

import contextlib
import datetime
import json
import os
import sqlite3

parameters = json.loads(os.environ["TIMEBALL_PARAMETERS"])
fire_time = datetime.datetime.fromisoformat(os.environ["TIMEBALL_FIRE_TIME"])
since = fire_time.date() - datetime.timedelta(days=parameters["days"])

orders = [(number, str(fire_time.date() - datetime.timedelta(days=number)), 10 * number) for number in range(60)]
wanted = [order for order in orders if order[1] >= str(since)]
print("::progress 50 extracted")

with contextlib.closing(sqlite3.connect(parameters["warehouse"])) as warehouse, warehouse:
    warehouse.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, day TEXT, cents INTEGER)")
    warehouse.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", wanted)

print(f"loaded {len(wanted)} orders since {since}")
print("::result", json.dumps({"orders": len(wanted)}))

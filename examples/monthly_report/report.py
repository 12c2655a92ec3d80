"""Sums up the month before the fire time. The fire time, not the clock, decides: a late run reports the same month."""

import calendar
import datetime
import json
import os

parameters = json.loads(os.environ["TIMEBALL_PARAMETERS"])
fire_time = datetime.datetime.fromisoformat(os.environ["TIMEBALL_FIRE_TIME"])
last_day = fire_time.date().replace(day=1) - datetime.timedelta(days=1)
days = calendar.monthrange(last_day.year, last_day.month)[1]
total = sum(100 + day for day in range(1, days + 1))

print(f"{parameters['title']} of {last_day:%B %Y}: {total} in {days} days")
print("::result", json.dumps({"month": f"{last_day:%Y-%m}", "total": total}))

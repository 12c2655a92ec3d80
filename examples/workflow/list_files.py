"""The first task: which files there are."""

import json
import os

bucket = json.loads(os.environ["TIMEBALL_PARAMETERS"])["bucket"]
print("::result", json.dumps({"files": [f"{bucket}/{name}.csv" for name in ("orders", "customers", "returns")]}))

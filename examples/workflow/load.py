"""The second task: once for each file."""

import json
import os

file = json.loads(os.environ["TIMEBALL_PARAMETERS"])["file"]
print(f"loading {file}")
print("::result", json.dumps({"file": file, "rows": len(file)}))

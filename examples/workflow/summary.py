"""The last task: it gets the results of all instances of `load`, in the order of the files."""

import json
import os

loaded = json.loads(os.environ["TIMEBALL_PARAMETERS"])["loaded"]
print("::result", json.dumps({"files": len(loaded), "rows": sum(each["rows"] for each in loaded)}))

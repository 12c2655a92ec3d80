"""`TIMEBALL_THOROUGH=1` makes tests as thorough as they can be; without it they do what fits into a few minutes."""

import os

THOROUGH = os.environ.get("TIMEBALL_THOROUGH", "") not in ("", "0")

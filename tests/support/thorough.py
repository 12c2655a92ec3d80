"""`TIMEBALL_THOROUGH=1` asks tests for all they can do; without it they do as much as fits into a few minutes."""

import os

THOROUGH = os.environ.get("TIMEBALL_THOROUGH", "") not in ("", "0")

"""The names and descriptions of the planted bugs. They are in a module of their own, so that listing them does not
import the modules that the bugs change.
"""

from __future__ import annotations

from typing import Final

BUGS: Final = {
    "early-start": "runs that are assigned before their fire time start at once",
    "no-rescue": "attempts of a dead worker are not given to another worker",
    "no-once-only-guard": "two servers may plan the same fire",
    "answer-before-commit": "submissions are acknowledged one second before they are durable",
    "forgotten-end": "every 50th success is acknowledged but not stored",
}

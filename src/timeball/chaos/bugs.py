"""The bugs that can be planted, by name. Known without importing what they break."""

from __future__ import annotations

from typing import Final

BUGS: Final = {
    "early-start": "what is handed out ahead of its time starts at once",
    "no-rescue": "nobody takes over what a dead worker held",
    "no-once-only-guard": "two servers may plan the same fire",
    "answer-before-commit": "submissions are acknowledged a second before they are durable",
    "forgotten-end": "every 50th success is acknowledged and forgotten",
}

"""Tests of the web UI in Chromium, against real processes of Timeball."""

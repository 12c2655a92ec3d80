"""`make bench`: every figure; exits with 1 when a promise was missed."""

import sys

from bench import cron, lateness, throughput

if __name__ == "__main__":
    results = [cron.run(), lateness.run(), throughput.run()]
    sys.exit(0 if all(results) else 1)

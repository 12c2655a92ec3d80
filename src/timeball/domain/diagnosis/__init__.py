"""Diagnosis: the reasons for the current state of a run or a job, as `timeball why` shows them."""

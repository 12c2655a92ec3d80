"""Why a run or a job is where it is."""

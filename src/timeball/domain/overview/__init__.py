"""The overview: statistics of runs, lanes of the timeline, and what needs attention."""

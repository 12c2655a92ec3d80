"""The overview in SQL: statistics, the present, attention, lanes of the timeline."""

"""Jobs: the spec of a job, edits of single runs, and references to large values in object storage."""

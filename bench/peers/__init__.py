"""The same work on other systems, on the same machine, in the same run: what counts is the ratio."""

"""The same work on other systems, on the same machine and in the same run, so that the ratios can be compared."""

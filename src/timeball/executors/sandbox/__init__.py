"""Linux control groups and Landlock, which confine job processes."""

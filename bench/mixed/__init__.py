"""A load of several kinds of jobs at the same time, as `bench mixed` measures it."""

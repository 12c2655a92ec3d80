"""Jobs that do real work: each task kind beside the raw limit, which is the same work without Timeball."""

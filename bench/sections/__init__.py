"""One section of the benchmarks per module, each with a `run(scale) -> Findings`."""

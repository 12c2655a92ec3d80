"""The sections of the benchmarks, one per module, each with a function `run(scale) -> Findings`."""

"""Commands for operators: keys, the clock, benchmarks and chaos tests."""

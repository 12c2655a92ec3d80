"""Commands for operators, such as those for keys, tenants, the clock, benchmarks and chaos tests."""

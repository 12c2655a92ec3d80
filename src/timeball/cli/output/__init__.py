"""The output of commands: tables, times, rules in words, and errors."""

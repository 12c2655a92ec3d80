"""Tests with parts: real servers and tools beyond Python and PostgreSQL, which `make parts` installs."""

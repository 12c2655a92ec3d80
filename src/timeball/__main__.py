"""`python -m timeball` is `timeball`."""

from timeball.cli import main

main()

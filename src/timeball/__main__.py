"""`python -m timeball` runs the command `timeball`."""

from timeball.cli import main

main()

"""The guard program, but a job named "hangs" gets stuck on its way to its program, as on a dead file server."""

import importlib.util
import time
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "src" / "timeball" / "executors" / "guard" / "guard_program.py"
spec = importlib.util.spec_from_file_location("guard_program", PROGRAM)
assert spec is not None
assert spec.loader is not None
guard_program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard_program)
become = guard_program.become


def hang(message, *arguments, **settings):  # type: ignore[no-untyped-def]
    if message["argv"][0] == "hangs":
        time.sleep(600)
    become(message, *arguments, **settings)


guard_program.become = hang
guard_program.main()

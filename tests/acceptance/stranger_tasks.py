"""Tasks that record each execution in the file that the environment names."""

import os

from timeball import Context, task

FILE = "STRANGERS_WITNESS"


@task("witnessed")
async def witnessed(ctx: Context) -> None:
    line = f"{ctx.job_id} {ctx.attempt}\n"
    descriptor = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)

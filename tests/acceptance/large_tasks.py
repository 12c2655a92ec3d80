"""A task with large values. Workers load it with `--tasks tests.acceptance.large_tasks`."""

import timeball


@timeball.task("large.echo")
async def echo(text: str) -> str:
    return text

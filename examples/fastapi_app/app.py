"""A web application that submits jobs: `pip install fastapi`, then `uvicorn app:app`.

The client finds the Timeball of this machine, or the one that TIMEBALL_URL and TIMEBALL_TOKEN_FILE name.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request

import timeball


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with timeball.AsyncClient() as client:
        app.state.timeball = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}/invoice", status_code=202)
async def create_invoice(number: int, request: Request) -> dict[str, Any]:
    """The answer is sent when the job is durable. The same order makes one job, also if the request is repeated."""
    client: timeball.AsyncClient = request.app.state.timeball
    job = await client.create_job(
        f"invoice-{number}", shell=f"echo invoice for order {number}", idempotency_key=f"invoice-{number}"
    )
    return {"jobId": job.job_id}


@app.get("/jobs/{job_id}")
async def read_status(job_id: str, request: Request) -> dict[str, Any]:
    client: timeball.AsyncClient = request.app.state.timeball
    status = await client.status(job_id)
    return {"status": status.status, "runId": status.run_id}

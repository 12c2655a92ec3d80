"""Celery: a worker of the solo pool, which executes in the process that fetches, or of the pool that is given."""

import os
import sys

import witness
from celery import Celery, signals

app = Celery("celery_app", broker=f"redis+socket://{os.environ['PEER_STORE']}")
app.conf.update(
    task_acks_late=True,  # otherwise a task that was fetched is lost with its worker
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    worker_enable_remote_control=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop() -> None:
    witness.called()


@signals.worker_process_shutdown.connect  # each process of the prefork pool
@signals.worker_shutdown.connect
def finish(**_: object) -> None:
    witness.finish()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", jobs]:
            with app.producer_pool.acquire(block=True) as producer:
                for _ in range(int(jobs)):
                    noop.apply_async(producer=producer)
        case ["work", *pool]:
            quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
            app.worker_main(["worker", *(pool or ["--pool", "solo"]), "--hostname", f"{os.getpid()}@peers", *quiet])

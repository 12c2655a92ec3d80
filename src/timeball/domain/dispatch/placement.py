"""Placement: the requirements of a run, the offers of workers, and the choice of a worker for a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from timeball.domain.errors import Invalid
from timeball.domain.tenant import DEFAULT_TENANT

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
    """The resources that a run occupies on its worker while it executes. The default is one slot."""

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


_POOL_MARK: Final = "/"


def pool_label(kind: str, pool: str) -> str:
    """Return the label of a run that waits in the queue of a slot pool. It requires nothing of a worker. The runs of a
    queue have this label so that they do not block the runs of other pools. It begins like the label of a task kind,
    because older versions then let workers without such labels execute the runs.
    """
    return f"{KIND_MARK}{kind}{_POOL_MARK}{pool}"


TENANT_MARK: Final = "~"
"""The first character of a label that names a tenant, among the labels of a run or a worker. No label that a user gives
begins with it.

Runs of each tenant but the default one require the label of their tenant. So they wait in queues of their own, and a
claim finds the first runs of each tenant by an index, while runs of the default tenant cost nothing more. A worker
without such labels serves all tenants; a worker with such labels serves only these."""


def tenant_label(tenant: str) -> str:
    return f"{TENANT_MARK}{tenant}"


_DEFAULT_LABEL: Final = tenant_label(DEFAULT_TENANT)


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
        labels = sorted(_sorted_labels(self.labels)[0])
        parts += [f"label{'s' if len(labels) > 1 else ''} {', '.join(labels)}"] if labels else []
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "1 slot"

    def of_kind(self, kind: str | None) -> Need:
        """Return the requirements with the label of this task kind; unchanged for None."""
        if kind is None or kind_label(kind) in self.labels:
            return self
        return structs.replace(self, labels=self.of_any_kind().labels | {kind_label(kind)})

    def in_pool(self, kind: str, pool: str) -> Need:
        """Return the requirements with the labels of a run that waits for a slot of a pool: of its task kind and of the
        pool."""
        return structs.replace(self, labels=self.of_kind(kind).labels | {pool_label(kind, pool)})

    @property
    def pool(self) -> str | None:
        """The slot pool in whose queue the run waits; None if it does not wait in one."""
        return _pool(self.labels) if self.labels else None

    @property
    def is_only_pooled(self) -> bool:
        """True if the run waits in the queue of a slot pool, and every worker that accepts all runs may execute it."""
        return self.pool is not None and self.of_any_kind() == PLAIN

    def is_met_by_any_slot(self, tenant: str) -> bool:
        """True if a run of this tenant needs one slot and nothing else. The labels of its task kind and of its slot
        pool do not count."""
        return self.of_any_kind() == PLAIN.of_tenant(tenant)

    def of_any_kind(self) -> Need:
        """Return the requirements without the labels of a task kind and of a slot pool."""
        return structs.replace(self, labels=frozenset(each for each in self.labels if not each.startswith(KIND_MARK)))

    def of_any_tenant(self) -> Need:
        """Return the requirements without the label of a tenant."""
        labels, kinds, _ = _sorted_labels(self.labels)
        return structs.replace(self, labels=labels | kinds)

    def of_tenant(self, tenant: str) -> Need:
        """Return the requirements with the label of this tenant; unchanged for the default tenant."""
        return self if tenant == DEFAULT_TENANT else structs.replace(self, labels=self.labels | {tenant_label(tenant)})


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
    tenants: frozenset[str] | None = None
    """The tenants that the worker serves, as labels; None if it serves all tenants."""

    def suits(self, need: Need) -> bool:
        """True if the worker could execute a run with these requirements, if it had enough free resources. If the
        worker accepts only some kinds, the requirements must name one of them."""
        return self.may_suit(need) and (self.kinds is None or not self.kinds.isdisjoint(need.labels))

    def may_suit(self, need: Need) -> bool:
        """True if the worker could execute some of the runs with these requirements, which need not name their kind."""
        if not need.labels:
            return not self.dedicated and (self.tenants is None or _DEFAULT_LABEL in self.tenants)
        labels, kinds, tenants = _sorted_labels(need.labels)
        takes = self.kinds is None or kinds <= self.kinds
        serves = self.tenants is None or tenants <= self.tenants
        return takes and serves and labels <= self.labels and (bool(labels) or not self.dedicated)

    def serves(self, tenant: str) -> bool:
        return self.tenants is None or tenant_label(tenant) in self.tenants

    def fits(self, need: Need) -> bool:
        return self.suits(need) and need.slots <= self.slots and need.cpu <= self.cpu and need.memory <= self.memory

    def take(self, need: Need) -> None:
        self.slots -= need.slots
        self.cpu -= need.cpu
        self.memory -= need.memory


@lru_cache
def _sorted_labels(labels: frozenset[str]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the labels that a user gave, those of task kinds, and those of tenants (that of the default
    tenant if there is none). Labels of slot pools are in none of the three."""
    marked = frozenset(label for label in labels if label.startswith(KIND_MARK))
    kinds = frozenset(label for label in marked if _POOL_MARK not in label)
    tenants = frozenset(label for label in labels if label.startswith(TENANT_MARK))
    return labels - marked - tenants, kinds, tenants or frozenset({_DEFAULT_LABEL})


@lru_cache
def _pool(labels: frozenset[str]) -> str | None:
    marked = (label.partition(_POOL_MARK) for label in labels if label.startswith(KIND_MARK))
    return next((pool for _, mark, pool in marked if mark), None)


def need(resources: Resources | None, runs_on: Iterable[str]) -> Need:
    asked = Resources() if resources is None else resources
    return Need(asked.slots, round(asked.cpu * 1000), asked.memory_mb, frozenset(runs_on))


def profile(need: Need, level: int) -> str | None:
    """Return the placement profile of a run with the priority `level`: the queue in which the run waits. Runs of one
    profile have equal requirements, so if the first one does not fit a worker, none does. None if the run has no
    special requirements."""
    if need == PLAIN:
        return None
    return f"{level}|{need.slots}|{need.cpu}|{need.memory}|{' '.join(sorted(need.labels))}"


@lru_cache(maxsize=1024)
def need_of(profile: str) -> Need:
    """Return the requirements of the runs of a profile."""
    _, slots, cpu, memory, labels = profile.split("|")
    return Need(int(slots), int(cpu), int(memory), frozenset(labels.split()))


def queue_name(profile: str | None) -> str:
    """Return the name of the queue of a profile for metrics: what its runs need of a worker, apart from resources, as
    `gpu,kind:shell`. It is `default` for runs that need no label."""
    if profile is None:
        return "default"
    labels, kinds, _ = _sorted_labels(need_of(profile).labels)
    return ",".join([*sorted(labels), *sorted(f"kind:{each[1:]}" for each in kinds)]) or "default"


def tenant_of(profile: str | None) -> str:
    """Return the tenant of the runs of a profile. None is the profile of runs without requirements."""
    labels = () if profile is None else need_of(profile).labels
    return next((each[1:] for each in labels if each.startswith(TENANT_MARK)), DEFAULT_TENANT)


def total(needs: Iterable[tuple[Need, int]]) -> Need:
    """Return the sum of requirements. Each pair has the requirements of a run and the number of such runs."""
    slots = cpu = memory = 0
    for each, times in needs:
        slots += each.slots * times
        cpu += each.cpu * times
        memory += each.memory * times
    return Need(slots, cpu, memory)


def open_slots(offers: Iterable[Offer]) -> int:
    """Return the number of free slots for runs without placement requirements, on workers that are not reserved."""
    return sum(offer.slots for offer in offers if offer.suits(PLAIN) and offer.reserved_for is None)


def choose(need: Need, profile: str | None, offers: Iterable[Offer]) -> Offer | None:
    """Return the offer of the worker for a run: one that is reserved for its profile, or else the one with the most
    free slots; None if no worker fits."""
    return most_free(need, profile, [offer for offer in offers if offer.suits(need)])


def most_free(need: Need, profile: str | None, suited: Iterable[Offer]) -> Offer | None:
    """Return the same offer as `choose`. The caller passes only offers of workers that suit the run. A claim compares
    each of its runs with each free worker, so this is one plain loop."""
    slots, cpu, memory = need.slots, need.cpu, need.memory
    best: Offer | None = None
    rank = (False, 0, 0)
    for offer in suited:
        reserved = offer.reserved_for
        if (
            slots <= offer.slots
            and cpu <= offer.cpu
            and memory <= offer.memory
            and (reserved is None or reserved == profile)
            and (best is None or (reserved is not None, offer.slots, offer.cpu) > rank)
        ):
            best, rank = offer, (reserved is not None, offer.slots, offer.cpu)
    return best

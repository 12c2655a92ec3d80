"""The filter that decides which events a listener gets."""

from __future__ import annotations

from msgspec import UNSET, Struct

from timeball.domain.run.status import Status
from timeball.operation.events.job_facts import JobFacts
from timeball.ports.store.changes import Change, JobChange, RunChange


class EventFilter(Struct, frozen=True, kw_only=True):
    """The conditions of a listener. An empty field selects all events. Events of workers are sent only to listeners
    with an empty filter; events of jobs only to listeners whose filter names no run and no status."""

    job_id: str = ""
    run_id: str = ""
    tag: str = ""
    statuses: frozenset[Status] = frozenset()
    kind: str = ""

    @property
    def is_empty(self) -> bool:
        return self == _EMPTY

    def passes(self, change: Change, facts: JobFacts | None) -> bool:
        if self == _EMPTY:
            return True
        if facts is None or (self.job_id and facts.job_id != self.job_id):
            return False
        if self.tag and (facts.tags is UNSET or self.tag not in facts.tags):
            return False
        if self.kind and facts.kind != self.kind:
            return False
        if isinstance(change, RunChange):
            return (not self.run_id or change.run_id == self.run_id) and (
                not self.statuses or change.status in self.statuses
            )
        return isinstance(change, JobChange) and not self.run_id and not self.statuses


_EMPTY = EventFilter()

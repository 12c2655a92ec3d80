"""The changes of one tenant in one window, which is the time between two publications of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Final

from msgspec import UNSET

from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import JobFacts
from timeball.operation.events.summary import RunsSummary
from timeball.ports.store.changes import Change, JobChange, RunChange

MAX_SINGLE_EVENTS: Final = 100
"""Maximum number of changes in a window that are sent one by one. More of them are sent as one summary."""
MAX_FILTERED: Final = 20_000
"""Maximum number of changes that the filters of all listeners check in one window, in addition to the few that each
listener may get one by one. Beyond it, listeners get a summary that may contain more than their filter selects."""

Item = tuple[Change, JobFacts | None]
Numbered = tuple[int, Item]
"""A change with its position in the window."""
_POSITION = itemgetter(0)


class TenantWindow:
    """Finds the changes that a filter selects. It groups the changes by job, run, tag, kind or status when a filter
    first needs that, so that the cost of a listener depends on the number of changes that it gets, not on the number of
    all changes."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.bulk: RunsSummary | None = None
        """The counts of further changes, which were too many to check one by one."""
        self.picked: list[Item] = []
        """The counted changes that a filter by job or by run selects."""
        self.remote_summaries: list[RunsSummary] = []
        """Summaries from other servers."""
        self._groups: dict[str, dict[object, list[Numbered]]] = {}
        self._work_left = MAX_FILTERED

    @property
    def size(self) -> int:
        """The number of events, and so of event numbers, that the window takes."""
        return len(self.items) + len(self.picked) + len(self.remote_summaries) + (self.bulk is not None)

    @property
    def is_summarised(self) -> bool:
        return self.bulk is not None or len(self.items) > MAX_SINGLE_EVENTS

    @cached_property
    def summary(self) -> RunsSummary:
        """The summary of all changes of this server."""
        if self.bulk is None:
            return self._own_summary
        return self.bulk.plus(self._own_summary).limited() if self.items else self.bulk

    def select(self, where: EventFilter) -> tuple[Sequence[Numbered], list[RunsSummary]]:
        """Return the changes that a filter selects, with their positions, and summaries of the unlisted changes."""
        summaries = [part for each in self.remote_summaries if (part := each.narrowed(where)) is not None]
        if where.is_empty:
            if self.is_summarised:
                return (), [self.summary, *summaries]
            return self._numbered, summaries
        is_named = bool(where.job_id or where.run_id)
        if self.bulk is not None and not is_named and (part := self.bulk.narrowed(where)) is not None:
            summaries.insert(0, part)
        groups = self._candidates(where)
        count = sum(map(len, groups))
        if count > MAX_SINGLE_EVENTS:
            if count > self._work_left:
                part = self._own_summary.narrowed(where)
                return (), summaries if part is None else [part, *summaries]
            self._work_left -= count
        end = len(self.items) + len(self.picked) if is_named else len(self.items)
        selected = [each for group in groups for each in group if each[0] < end and where.passes(*each[1])]
        if len(selected) > MAX_SINGLE_EVENTS:
            return (), [RunsSummary.of(item for _, item in selected).limited(), *summaries]
        return (selected if len(groups) == 1 else sorted(selected, key=_POSITION)), summaries

    @cached_property
    def _own_summary(self) -> RunsSummary:
        return RunsSummary.of(self.items).limited()

    @cached_property
    def _numbered(self) -> list[Numbered]:
        return list(enumerate([*self.items, *self.picked]))

    def _candidates(self, where: EventFilter) -> list[Sequence[Numbered]]:
        """Return groups of changes that contain all that the filter selects."""
        if where.run_id:
            return [self._grouped("run", _run_of).get(where.run_id, ())]
        if where.job_id:
            return [self._grouped("job", _job_of).get(where.job_id, ())]
        if where.tag:
            return [self._grouped("tag", _tags_of).get(where.tag, ())]
        if where.kind:
            return [self._grouped("kind", _kind_of).get(where.kind, ())]
        by_status = self._grouped("status", _status_of)
        return [by_status.get(status, ()) for status in where.statuses]

    def _grouped(self, name: str, keys: Callable[[Item], Iterable[object]]) -> dict[object, list[Numbered]]:
        groups = self._groups.get(name)
        if groups is None:
            groups = self._groups[name] = defaultdict(list)
            for each in self._numbered:
                for key in keys(each[1]):
                    groups[key].append(each)
        return groups


def _run_of(item: Item) -> Iterable[object]:
    return (item[0].run_id,) if isinstance(item[0], RunChange) else ()


def _job_of(item: Item) -> Iterable[object]:
    change, facts = item
    if facts is not None:
        return (facts.job_id,)
    return (change.job_id,) if isinstance(change, RunChange | JobChange) else ()


def _tags_of(item: Item) -> Iterable[object]:
    facts = item[1]
    return () if facts is None or facts.tags is UNSET else facts.tags


def _kind_of(item: Item) -> Iterable[object]:
    facts = item[1]
    return () if facts is None or facts.kind is UNSET else (facts.kind,)


def _status_of(item: Item) -> Iterable[object]:
    return (item[0].status,) if isinstance(item[0], RunChange) else ()

"""Where the time of a workflow went, read from its history and those of its children."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
STARTED = EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
COMPLETED = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
TASK_COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
CHILD_STARTED = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED


@dataclass(frozen=True)
class Hand:
    """One step: when it was asked for, taken up and done."""

    verb: str
    scheduled: datetime
    started: datetime
    ended: datetime

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds()

    @property
    def waited(self) -> float:
        return (self.started - self.scheduled).total_seconds()


@dataclass
class History:
    hands: list[Hand]
    tasks: int
    """Workflow tasks, of children too."""

    @property
    def busy_seconds(self) -> float:
        """How long at least one hand was at work."""
        busy, until = 0.0, min(hand.started for hand in self.hands)
        for hand in sorted(self.hands, key=lambda hand: hand.started):
            if hand.ended > until:
                busy += (hand.ended - max(hand.started, until)).total_seconds()
                until = hand.ended
        return busy


async def history(client: Client, workflow_id: str) -> History:
    """Of a workflow that ended well."""
    events = [
        event async for event in client.get_workflow_handle(workflow_id).fetch_history_events()
    ]
    told = History(
        list(_hands(events)), sum(event.event_type == TASK_COMPLETED for event in events)
    )
    for event in events:
        if event.event_type == CHILD_STARTED:
            started = event.child_workflow_execution_started_event_attributes
            child = await history(client, started.workflow_execution.workflow_id)
            told.hands += child.hands
            told.tasks += child.tasks
    return told


def _hands(events: Iterable[HistoryEvent]) -> Iterable[Hand]:
    by_id = {event.event_id: event for event in events}
    for event in by_id.values():
        if event.event_type == COMPLETED:
            done = event.activity_task_completed_event_attributes
            scheduled = by_id[done.scheduled_event_id]
            yield Hand(
                scheduled.activity_task_scheduled_event_attributes.activity_type.name,
                scheduled.event_time.ToDatetime(),
                by_id[done.started_event_id].event_time.ToDatetime(),
                event.event_time.ToDatetime(),
            )

"""Waiting has names: a workflow picks a word, the numbers are here.

What must succeed is limited in attempts and not in time: while no worker serves a queue nothing is
attempted, and a worker that comes back finds its work waiting. Every hand waits out its
cancellation, so that an undo never races what it undoes."""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig, LocalActivityConfig

HEARTBEAT = timedelta(seconds=30)
_WAIT = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
_SOON = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(minutes=1),
    maximum_attempts=30,
)
"""Half an hour of a system that is down, and then it is time to say so."""

BRIEF = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=90),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=_SOON,
    cancellation_type=_WAIT,
)
"""One call that is answered at once, or soon again."""

QUEUEING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=4),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=240,
    ),
    cancellation_type=_WAIT,
)
"""Two hours for a machine that somebody else has now. One try waits for as long as MAAS may work at
it, and being told to stop waits for that: what is taken after its undo has looked is nobody's."""

PATIENT = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=45),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=_SOON,
    cancellation_type=_WAIT,
)
"""Metal that installs itself, a command that makes a node of it."""

WATCHING: ActivityConfig = {**PATIENT, "start_to_close_timeout": timedelta(minutes=15)}
"""A host, an API or a node that comes up by itself, or not at all."""

STUBBORN = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=45),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(minutes=10),
    ),
    cancellation_type=_WAIT,
)
"""What must succeed in the end, or something leaks. It is tried for ever, and its
operation says what it waits for."""

COURTESY = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=2),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3),
    cancellation_type=_WAIT,
)
"""What is better done and may be left: what follows makes up for it."""

SEEING_THROUGH: ActivityConfig = {
    **COURTESY,
    "start_to_close_timeout": timedelta(minutes=5),
    "schedule_to_close_timeout": timedelta(minutes=5),
}
"""What was begun on a host and goes on there: it is waited for, and longer than that by nobody."""

IN_PASSING: ActivityConfig = {
    **COURTESY,
    "retry_policy": RetryPolicy(maximum_attempts=1),
}
"""The same, of a host that most likely does not answer any more."""

DRAINING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=2),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=10),
    ),
    cancellation_type=_WAIT,
)
"""Pods that are asked to leave until they have, or until the time their node was given is up. That
time is in the step itself, which ends then."""

SETTLING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=3),
    schedule_to_close_timeout=timedelta(days=7),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=10),
    ),
    cancellation_type=_WAIT,
)
"""Data that Ceph moves, which may take days. Every two minutes it is said what is left."""

CALMING: ActivityConfig = {**SETTLING, "schedule_to_close_timeout": timedelta(days=1)}
"""Ceph with new daemons, until it is well."""

LEAVING: ActivityConfig = {
    **STUBBORN,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(minutes=5),
        maximum_attempts=12,
    ),
}
"""A machine that a living cluster is done without: twelve refusals, and then it is said that MAAS
has not taken it back. That is after some twenty minutes if MAAS refuses at once, and after an hour
and a quarter if it gives up each time after the five minutes that it takes for that."""

RETURNING: ActivityConfig = {**DRAINING, "start_to_close_timeout": timedelta(minutes=45)}
"""A node whose machine was restarted. How long it is waited for is in the step itself."""

POWER: ActivityConfig = {**BRIEF, "start_to_close_timeout": timedelta(minutes=5)}
"""A machine that is switched on or off, which its controller does within that time or not at all.
MAAS may be away meanwhile, or busy with it."""

INSISTING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=5),
    schedule_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=HEARTBEAT,
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_attempts=3
    ),
    cancellation_type=_WAIT,
)
"""What is tried before it is said to be left behind: three times, and for five minutes at most."""

LOOK = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=5),
)
"""A look that nobody waits for: the next one comes soon."""

TOURING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=15),
    heartbeat_timeout=timedelta(seconds=90),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=15),
    ),
)
"""Minutes of looking at what stands. There are as many as clusters, so they beat seldom; a killed
worker's are taken up after the timeout, and those of one that is told to stop at once."""

TOURS_PER_RUN = 100
"""Then a monitor continues as a new run: some hundred events, a tenth of a second to replay."""

BOOKS = LocalActivityConfig(
    start_to_close_timeout=timedelta(seconds=10),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(milliseconds=100),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=5),
    ),
)
"""Our own rows. The database may be away for a while; the books wait for it, without limit."""

EACH_APART = LocalActivityConfig(
    start_to_close_timeout=timedelta(seconds=10),
    schedule_to_close_timeout=timedelta(seconds=30),
    retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=5),
)
"""One of many that are looked at together: the others do not wait for it for ever."""

OPERATION_DEADLINE = timedelta(hours=4)
"""After this a creation goes without the nodes that it still lacks. Without its first control
plane it is given up and undone."""

STALLED = timedelta(minutes=20)
"""Without a daemon replaced for so long, somebody has to look at an upgrade of Ceph."""

UNDO_DEADLINE = timedelta(minutes=15)
"""What an operation that was pushed aside gets to undo itself before it is fenced."""

HANDS_DEADLINE = timedelta(minutes=5)
"""Longer than any call that takes a machine: by then no hand of a fenced operation takes one, also
if its worker is gone and nobody says that it has ended."""

FIRST_LOOK, RAREST_LOOK = timedelta(seconds=0.1), timedelta(seconds=5)
"""How often it is looked at meanwhile: twice as rarely each time."""

BETWEEN_LOOKS = timedelta(minutes=1)
"""How often an instance is looked at that is waited for. A nudge is there at once."""

FIRST_GLANCE, RAREST_GLANCE = timedelta(minutes=1), timedelta(hours=1)
"""How often a workflow looks by itself at what is wished of it: at first, and while it is held
twice as rarely each time. A nudge is there at once; a pause may last for months, and each look is
remembered in the workflow's history."""

GIVING_BACK = timedelta(minutes=15)
"""What MAAS gets to take a machine back that a cluster is done without. Then the operation ends
all the same, and says what it left to the delete."""

ATTENDING = ActivityConfig(
    start_to_close_timeout=timedelta(hours=24),
    heartbeat_timeout=timedelta(seconds=15),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=0.9),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=15),
    ),
)
"""An instance that is listened to for as long as it runs. Whoever dies at it is found out by its
heartbeat, and an agent that hangs up is asked again; whether its node lives, the node's lease says.
It is put down without waiting for it: what it still hears is late.

One that is gone is asked again 0.9, 2.7, 6.3, 13.5 and 27.9 s after it hung up: not while its
lease, of 15 s unless somebody says otherwise, ends and all that it carried is placed anew."""

ON_A_NODE = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=90),
    heartbeat_timeout=timedelta(seconds=15),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_attempts=3
    ),
)
"""One thing that an agent is asked for. If it is not done, the row says when it is asked again."""

CLEANING: ActivityConfig = {**ON_A_NODE, "schedule_to_close_timeout": timedelta(seconds=6)}
"""A copy that is removed before anything else is done, lest two of them run. A node that is back
may have to be called twice; if its agent does not answer, that is tried again beside everything
else."""

INSTANCE_GLANCE = timedelta(minutes=10)
"""How often an instance's workflow looks at its row by itself; a nudge is there at once."""

ERRANDS_PER_RUN = 100
"""Then an instance's workflow continues as a new run."""

EMPTYING_LOOK = timedelta(seconds=5)
"""How often it is looked how many have left a node that is emptied."""

LOOKS_PER_DRAIN = 500

EVENTS_PER_RUN = 2000
"""Then a workflow that waits for something at the edge continues as a new run, however long that is
waited for and however often it is nudged: the server ends one of 51,200 events."""

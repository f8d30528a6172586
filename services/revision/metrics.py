"""What a revision process counts. Commits and receipts are counted by the replica that leads, commands by each."""

from shared.contracts.commands import Command
from shared.metrics.declaring import Metrics
from shared.metrics.kinds import ERROR_CODES, kinds_of
from shared.metrics.pools import pool_reading

METRICS = Metrics("revision")

COMMITS = METRICS.counter(
    "kandev_revision_commits_total",
    "Commits that the leader decoded: whole, doubtful (the log does not explain every change; their sessions are read "
    "again), or broken (changes that no revision covers: a new epoch is due).",
    outcome=("whole", "doubtful", "broken"),
)
RECEIPTS = METRICS.counter(
    "kandev_revision_receipts_total",
    "Receipts by what became of them: published, or dropped because Redis did not take them.",
    outcome=("published", "dropped"),
)
INCOMPLETE = METRICS.counter(
    "kandev_revision_incomplete_receipts_total",
    "Receipts that do not name every change, for their size or for a row that no contract describes: resets.",
)
EPOCHS = METRICS.counter("kandev_revision_epochs_total", "New epochs that the leader decoded.")
PUBLISHED_SECONDS = METRICS.histogram(
    "kandev_revision_publish_seconds",
    "From a commit to its receipts in Redis, by the clocks of PostgreSQL and of this machine.",
)
STATE = METRICS.reading(
    "kandev_revision_tracker_state",
    "1 for the state of this replica's tracker.",
    state=("starting", "standby", "leading", "degraded"),
)
TERM = METRICS.reading("kandev_revision_leader_term", "The term in which this replica leads; 0: it does not.")
SLOTS = METRICS.reading(
    "kandev_revision_slots",
    "Replication slots of the cluster, in use or idle.",
    state=("active", "idle"),
)
RETAINED = METRICS.reading(
    "kandev_revision_slot_retained_bytes", "Most write-ahead log that a single slot of the cluster keeps."
)
LAG = METRICS.reading(
    "kandev_revision_slot_lag_bytes", "Most write-ahead log that a tracker of this project has not confirmed yet."
)
CLOCK_SKEW = METRICS.reading(
    "kandev_revision_clock_skew_seconds", "How far PostgreSQL's clock is ahead of this machine's."
)
COMMANDS = METRICS.counter(
    "kandev_revision_commands_total",
    "Commands that this replica took: done, expired (past their deadline), or refused with a code.",
    kind=kinds_of(Command),
    outcome=("done", "expired", *ERROR_CODES),
)
COMMAND_SECONDS = METRICS.histogram(
    "kandev_revision_command_seconds", "From taking a command to its commit or refusal.", kind=kinds_of(Command)
)
BACKLOG = METRICS.reading(
    "kandev_revision_stream_entries", "Entries of the stream of commands: waiting, or under way and not acknowledged."
)
POOL = pool_reading(METRICS, ("primary",))

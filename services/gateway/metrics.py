"""What a gateway process counts. Nothing here is touched for every frame: figures of open things are read when somebody
asks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from prometheus_client import Counter

from services.gateway.scopes.scope import Phase
from services.gateway.websocket import closes
from services.gateway.websocket.closes import Close
from shared.contracts.commands import Command
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import Read
from shared.metrics.declaring import Metrics
from shared.metrics.kinds import ERROR_CODES, kinds_of
from shared.metrics.pools import pool_reading

ResetReason = Literal["incomplete", "epoch", "overflow", "history", "recreated"]

_CLIENTS_CODES = (1000, 1005, 1006, 1009, 1011)
"""What clients say, and what stands for a connection that ended without a word."""

_OWN_CODES = tuple(each.code for each in vars(closes).values() if isinstance(each, Close))

CLOSE_CODES = tuple(map(str, sorted({*_CLIENTS_CODES, *_OWN_CODES})))
"""Codes with a series of their own; any other that a client sends counts as `other`."""

METRICS = Metrics("gateway")

CONNECTIONS = METRICS.reading("kandev_gateway_connections", "Open WebSocket connections.")
REFUSED_CONNECTIONS = METRICS.counter(
    "kandev_gateway_refused_connections_total",
    "Connections refused before the upgrade: unavailable (this gateway is full), limit_exceeded (an address's or a "
    "user's limit).",
    code=("unavailable", "limit_exceeded"),
)
CLOSES = METRICS.counter(
    "kandev_gateway_closes_total",
    "Connections that ended, by close code, whoever sent it.",
    code=(*CLOSE_CODES, "other"),
)
SCOPES = METRICS.reading(
    "kandev_gateway_scopes", "Subscriptions, by where they stand.", phase=[phase.name.lower() for phase in Phase]
)
SESSIONS = METRICS.reading("kandev_gateway_followed_sessions", "Sessions that somebody follows here.")
SUBSCRIPTIONS = METRICS.counter(
    "kandev_gateway_subscriptions_total",
    "Subscriptions: opened anew, resumed where the client stopped, not resumed though it asked (it reads again), or "
    "refused.",
    outcome=("opened", "resumed", "not_resumed", "refused"),
)
QUEUED_FRAMES = METRICS.reading("kandev_gateway_queued_frames", "Frames that wait for clients to read.")
QUEUED_BYTES = METRICS.reading("kandev_gateway_queued_bytes", "Bytes that wait for clients to read.")
RECEIPTS = METRICS.counter(
    "kandev_gateway_receipts_total",
    "Entries of the receipt streams: followed here, or passed over unparsed.",
    outcome=("followed", "passed_over"),
)
DELIVERY_SECONDS = METRICS.histogram(
    "kandev_gateway_delivery_seconds",
    "From a receipt's entry in Redis to its scopes here, by the clocks of Redis and of this machine. Joining may add a "
    "tenth of a second.",
)
LAG = METRICS.gauge(
    "kandev_gateway_stream_lag_seconds", "Age of the newest entry of the batch of receipts that was read last."
)
JOINED = METRICS.counter(
    "kandev_gateway_joined_changes_total", "Changes that waited and left together with an earlier one of their session."
)
GAPS = METRICS.counter(
    "kandev_gateway_gaps_total",
    "Times that receipts of a partition may have been lost: a hole in the sequence, a new term, or a lost connection.",
    cause=("sequence", "term", "connection"),
)
RESETS = METRICS.counter(
    "kandev_gateway_resets_total",
    "Scopes told to read again: an incomplete receipt, a new epoch, an overflowing client, broken history, a session "
    "made again.",
    reason=get_args(ResetReason),
)
PAGES = METRICS.counter(
    "kandev_gateway_pages_total",
    "Pages of messages and turns that were asked for: of a session that is followed here (openings and repairs), or of "
    "another.",
    followed=("yes", "no"),
)
CHECKS = METRICS.counter(
    "kandev_gateway_checks_total",
    "Checks of followed sessions: answered, answered in another epoch, or failed.",
    outcome=("answered", "other_epoch", "failed"),
)
CHECKED = METRICS.counter("kandev_gateway_checked_sessions_total", "Sessions in answered checks.")
FOUND = METRICS.counter(
    "kandev_gateway_check_findings_total",
    "What checks found: a session ahead of what was sent (a loss, or a receipt on its way), gone, or below what was "
    "sent, and readers who may no longer read.",
    finding=("ahead", "gone", "below", "refused"),
)
READS = METRICS.counter(
    "kandev_gateway_reads_total",
    "Reads that readers were asked for: answered, or failed with a code.",
    kind=kinds_of(Read),
    outcome=("answered", *ERROR_CODES),
)
READ_SECONDS = METRICS.histogram(
    "kandev_gateway_read_seconds", "From asking readers to their answer, repetitions included.", kind=kinds_of(Read)
)
COMMANDS = METRICS.counter(
    "kandev_gateway_commands_total",
    "Commands that the write boundary was asked for: done, or failed with a code.",
    kind=kinds_of(Command),
    outcome=("done", *ERROR_CODES),
)
REQUESTS = METRICS.counter(
    "kandev_gateway_http_requests_total",
    "HTTP requests on the public port by the class of their status; an upgrade counts when its connection ends.",
    status=("1xx", "2xx", "3xx", "4xx", "5xx"),
)
MEMORY = METRICS.reading("kandev_gateway_remembered_bytes", "Receipts remembered for clients that come back.")
POOL = pool_reading(METRICS, ("gateway",))


def count_page(followed: bool) -> None:
    """A page was asked for, of a session that is followed here or not."""
    PAGES.labels("yes" if followed else "no").inc()


@contextmanager
def counted(outcomes: Counter, kind: str, success: str) -> Iterator[None]:
    """Counts what is asked for within the block by how it ends; what its asker gives up is not counted."""
    try:
        yield
    except RequestFailed as failed:
        outcomes.labels(kind, failed.failure.code).inc()
        raise
    outcomes.labels(kind, success).inc()

"""What a reader process counts."""

from shared.contracts.reads import Read
from shared.metrics.declaring import Metrics
from shared.metrics.kinds import ERROR_CODES, kinds_of
from shared.metrics.pools import pool_reading

METRICS = Metrics("reader")

LANES = ("pages", "others")

READS = METRICS.counter(
    "kandev_reader_reads_total",
    "Reads that this reader took: answered, refused (not taken on: it could only be late), expired (past their "
    "deadline), or failed with a code.",
    kind=kinds_of(Read),
    outcome=("answered", "refused", "expired", *ERROR_CODES),
)
READ_SECONDS = METRICS.histogram(
    "kandev_reader_read_seconds", "From a read's turn to its answer in Redis.", kind=kinds_of(Read)
)
COST = METRICS.reading(
    "kandev_reader_cost",
    "Reads in hand, in units of a look by primary key: those that wait for their turn, and those at work.",
    lane=LANES,
    state=("waiting", "working"),
)
BACKLOG = METRICS.reading("kandev_reader_stream_entries", "Entries of the stream of reads that no reader has taken.")
REPLICA = METRICS.reading("kandev_reader_replica_used", "1 while reads go to the replica.")
POOL = pool_reading(METRICS, ("primary", "replica"))

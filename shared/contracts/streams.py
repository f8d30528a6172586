"""Names of the Redis streams, and which partition a session's receipts take."""

from zlib import crc32

READS = "conversation:reads"
COMMANDS = "conversation:commands"
CONTROL = "conversation:control"
PRESENCE = "conversation:presence"

READERS_GROUP = "readers"
REVISION_GROUP = "revision"

DEFAULT_PARTITIONS = 8
"""Partitions of the receipt stream in a new database. Afterwards the number stands in the database, which every service
reads.
"""


def receipts(partition: int) -> str:
    """Name of the receipt stream of one partition."""
    return f"conversation:receipts:{partition}"


def replies(gateway: str) -> str:
    """Name of the reply stream that only this gateway process reads."""
    return f"conversation:replies:{gateway}"


def partition_of(session_id: str, partitions: int) -> int:
    """The partition that carries this session's receipts: crc32 of the id's UTF-8 bytes, modulo their number."""
    return crc32(session_id.encode()) % partitions

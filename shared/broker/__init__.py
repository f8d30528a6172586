"""Redis Streams as the services use them.

Receipts and replies go through thin readers and writers on redis-py: a receipt needs fields of its own and one XREAD
over all partitions, a reply
must not open a subscription per call. Reads, commands and control go through FastStream; `guarded` keeps its consumer
groups alive.
"""

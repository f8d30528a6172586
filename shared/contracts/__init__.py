"""The messages that services exchange, written once as pydantic models.

One module per stream or surface: `rows` (what a message and a turn are), `receipts`, `reads`, `commands`, `control`,
`replies`, `wire` (what a
WebSocket client sees), `errors` (one table of codes), `streams` (names and partitions), `identity`.
"""

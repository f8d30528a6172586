"""What gateways and readers must agree on of Host RPC: cursors, and messages, which readers write as they go out."""

FIRST_BYTES = (b"\n", b"\x12")
"""A `ListMessagesResponse` begins with one of these, the tags of its fields, of which `page_info` is always there. No
JSON does.
"""

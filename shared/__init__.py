"""What all services must agree on: contracts, streams, broker and database set-up, settings, sanitiser. No business
logic.
"""

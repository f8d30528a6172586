"""Receipts as they arrive: what the sequence numbers say about losses, and who gets which receipt."""

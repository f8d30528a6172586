"""The tracker: committed transactions become receipts, in commit order (`docs/protocol.md`, R and T)."""

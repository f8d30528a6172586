"""The write boundary: every command is one transaction, answered after its commit with the interval it made."""

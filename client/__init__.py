"""A consumer that follows a conversation as every client should: pure decisions (rules C1 to C7) and a thin connection."""

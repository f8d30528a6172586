"""A consumer that follows a conversation as every client should: pure decisions (C1 to C7) and a thin connection."""

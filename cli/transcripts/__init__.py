"""Coding-agent transcripts (JSON lines) read as conversations: bounded lines, what each line says, and the plan of what
to write.
"""

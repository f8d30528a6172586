"""The gateway's way to the source: reads through the readers, commands through the write boundary, and what it knows of
revisions.
"""

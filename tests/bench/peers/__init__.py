"""The bare hops, each in a process of its own: what a figure is held against."""

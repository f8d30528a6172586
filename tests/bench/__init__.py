"""What the product costs, beside the bare hops that nothing could do without: `python -m tests.bench`."""

"""Who is asking, and from where a request may come."""

"""The three programs: revision (writes and receipts), reader (every read), gateway (the edge). None imports another."""

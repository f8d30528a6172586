"""The way out of the journal that the application kept of conversations before: its tables, then its files."""

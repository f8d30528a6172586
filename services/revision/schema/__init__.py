"""The source's schema: numbered SQL files, and the runner that brings a database to the newest of them."""

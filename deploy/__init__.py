"""How the services run: the embedded stack for one machine, checks of this repository."""

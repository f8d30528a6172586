"""Proves a running installation: clients follow and writers write while each of its services is restarted or killed."""

"""Where a plugin runs: in a process of its own, in the browser alone, or, no longer, somewhere else."""

from collections.abc import Iterator

from services.gateway.plugins.declarations import Manifest, Runtime
from services.gateway.plugins.paths import path_problem
from services.gateway.plugins.rules.terms import shown


def runtime(manifest: Manifest) -> Iterator[str]:
    """The runtime, or that there is a remote one."""
    remote = {
        "base_url": manifest.base_url,
        "endpoints.health": manifest.endpoints.health,
        "endpoints.events": manifest.endpoints.events,
        "endpoints.webhooks": manifest.endpoints.webhooks,
    }
    if manifest.runtime is not None:
        yield from _managed(manifest.runtime)
        yield from (f"{name} must be empty for a runtime-managed plugin" for name, value in remote.items() if value)
    elif any(remote.values()):
        yield from (f"{name} is required" for name, value in remote.items() if not value)
        yield "a remote plugin (base_url, endpoints) cannot be installed: make it a package with a runtime or a ui"


def _managed(declared: Runtime) -> Iterator[str]:
    if declared.type != "binary":
        yield f'runtime.type {shown(declared.type)} is invalid: only "binary" is supported'
    if not declared.executables:
        yield 'runtime.executables must declare at least one entry when runtime.type is "binary"'
    for platform, path in declared.executables.items():
        if problem := path_problem(path) if path else "must not be empty":
            yield f"runtime.executables[{shown(platform)}]: path {problem}"

"""docker-compose.yml keeps the rules of this project, as far as that shows without an engine.

`python -m deploy.checks.compose` prints what breaks them and ends with code 1 when anything does.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from shared.secret_files import file_variables_of, variables_of
from shared.settings import Settings

ONE_SHOT = frozenset({"migrate"})
"""Services that end by themselves: they are neither asked for their health nor started again."""

SWITCHING = frozenset({"postgres"})
"""Images whose entry point begins as root, for the right to give the data to the server's own user."""

PUBLISHING = frozenset({"balancer", "grafana"})
"""The services that people reach. A published port is bound where a variable says, loopback unless it is set."""

INTERNAL = "data"
"""The network that leads nowhere else."""

OWN_IMAGE = "kandev-conversation:local"
"""What the image is called that is built here."""

_DEFAULTED = re.compile(r"^\$\{\w+:-(.+)\}$")
_PUBLISHED = re.compile(r"\$\{KANDEV_\w*BIND:-127\.0\.0\.1\}:\$\{KANDEV_\w+:-\d+\}:\d+")
_PLACEHOLDER = re.compile(r"\$\{\w+:-(change-me)?\}")
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY$")
_VARIABLE = re.compile(r"\$\{(\w+)")

# Any: a document of YAML.
Service = Mapping[str, Any]


def problems(root: Path) -> list[str]:
    """One sentence for each rule that the files of this folder break."""
    document = yaml.safe_load((root / "docker-compose.yml").read_text(encoding="utf-8"))
    found = [
        f"{name}: {problem}"
        for name, service in document["services"].items()
        for problem in service_problems(name, service)
    ]
    if not document["networks"].get(INTERNAL, {}).get("internal"):
        found.append(f"the network {INTERNAL} is not internal")
    found.extend(_example_problems(root))
    found.extend(balancer_problems((root / "deploy/compose/haproxy.cfg").read_text(encoding="utf-8")))
    found.extend(_version_problems(root))
    return found


def service_problems(name: str, service: Service) -> Iterator[str]:
    """What is wrong with one service."""
    if "container_name" in service:
        yield "a container's name keeps it from being scaled"
    yield from _image_problems(service)
    yield from _running_problems(name, service)
    yield from _confinement_problems(name, service)
    yield from _network_problems(name, service)
    yield from _environment_problems(service.get("environment") or {})


def _image_problems(service: Service) -> Iterator[str]:
    image = _DEFAULTED.sub(r"\1", str(service.get("image", "")))
    if image != OWN_IMAGE and not re.search(r":v?\d[\w.-]*$", image):
        yield f"the image {image} is of no version"


def _running_problems(name: str, service: Service) -> Iterator[str]:
    check = service.get("healthcheck") or {}
    if name in ONE_SHOT:
        if service.get("restart") != "no" or not check.get("disable"):
            yield "it ends by itself: no restart, and no health check"
    else:
        if "test" not in check:
            yield "it has no health check"
        if service.get("restart") != "unless-stopped":
            yield "it is not started again"
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    if not {"memory", "pids"} <= set(limits):
        yield "its memory or its processes have no limit"


def _confinement_problems(name: str, service: Service) -> Iterator[str]:
    if service.get("read_only") is not True:
        yield "its root can be written"
    if service.get("cap_drop") != ["ALL"]:
        yield "it keeps capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", ()):
        yield "it may gain privileges"
    if name not in SWITCHING:
        if not re.match(r"[1-9]\d*(:[1-9]\d*)?$", str(service.get("user", ""))):
            yield "its user is not a number other than root's"
        if "cap_add" in service:
            yield "it is given capabilities"


def _network_problems(name: str, service: Service) -> Iterator[str]:
    for port in service.get("ports", ()):
        if name not in PUBLISHING:
            yield f"it publishes {port}"
        elif not _PUBLISHED.fullmatch(str(port)):
            yield f"{port} is not bound by variables, to loopback unless they say otherwise"
    if service.get("network_mode") or not service.get("networks"):
        yield "it names no network"


def _environment_problems(environment: Mapping[str, object]) -> Iterator[str]:
    known = {
        variable
        for name, field in Settings.model_fields.items()
        for variable in variables_of(name, field) + file_variables_of(name, field)
    }
    for variable, value in environment.items():
        if _SECRET.search(variable) and not variable.endswith("_FILE") and not _PLACEHOLDER.fullmatch(str(value)):
            yield f"{variable} is written out"
        if variable.startswith("KANDEV_") and variable not in known | {"KANDEV_TLS_IN_FRONT"}:
            yield f"{variable} is no setting"


def _example_problems(root: Path) -> Iterator[str]:
    """What the example says is read by one of the files."""
    files = [root / "docker-compose.yml", *(root / "deploy/compose").glob("*.yml")]
    read = {name for file in files for name in _VARIABLE.findall(file.read_text(encoding="utf-8"))}
    example = (root / "deploy/compose/env.example").read_text(encoding="utf-8")
    for name in re.findall(r"^(\w+)=", example, re.MULTILINE):
        if name not in read:
            yield f"env.example: {name} is read by no compose file"


def balancer_problems(text: str) -> Iterator[str]:
    """What is wrong with the load balancer's configuration."""
    needed = {
        "it finds gateways by their name": r"^\s+server-template gateway \d+ gateway:8080$",
        "it asks Docker's own DNS": r"^\s+nameserver \w+ 127\.0\.0\.11:53$",
        "it starts before its gateways": r"\binit-addr none\b",
        "it asks gateways whether they are ready": r"^\s+http-check send meth GET uri /ready\b",
        "it lets WebSockets be silent for an hour or more": r"^\s+timeout tunnel \d+h$",
        "it spreads by open connections": r"^\s+balance leastconn$",
        "it says for whom it asks": r"^\s+option forwardfor$",
    }
    for sentence, pattern in needed.items():
        if not re.search(pattern, text, re.MULTILINE):
            yield f"haproxy.cfg: not so: {sentence}"
    for used in sorted(set(re.findall(r"^\s+default_backend (\w+)$", text, re.MULTILINE))):
        if not re.search(rf"^backend {used}$", text, re.MULTILINE):
            yield f"haproxy.cfg: the backend {used} is not there"
    for forbidden in ("stick-table", "cookie ", "stick on", "%r", "%HQ", "%HU"):
        if re.search(rf"(?m)^[^#\n]*{re.escape(forbidden)}", text):
            yield f"haproxy.cfg: {forbidden.strip()} binds clients to a gateway, or writes queries into the log"


def _version_problems(root: Path) -> Iterator[str]:
    """The image is built with the same uv as the environment."""
    made = re.search(r"^UV_VERSION := (\S+)", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    built = re.search(r"^uv==(\S+)", (root / "deploy/build-tools.txt").read_text(encoding="utf-8"), re.MULTILINE)
    if made is None or built is None or made.group(1) != built.group(1):
        yield "the Makefile and deploy/build-tools.txt name different versions of uv"


def main() -> None:
    """Checks the folder given, or the current one."""
    found = problems(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(found) or "The compose file keeps the rules.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

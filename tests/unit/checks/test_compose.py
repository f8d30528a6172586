"""What the compose file must not say."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.checks.compose import balancer_problems, problems, service_problems

ROOT = Path(__file__).parents[3]
FILES = ("docker-compose.yml", "Makefile", "deploy/build-tools.txt", "deploy/compose")
BALANCER = (ROOT / "deploy/compose/haproxy.cfg").read_text(encoding="utf-8")

Service = dict[str, Any]  # Any: a document of YAML
Change = Callable[[Service], object]

BROKEN: dict[str, tuple[str, Change, str]] = {
    "a name of its own": ("gateway", lambda service: service.update(container_name="x"), "from being scaled"),
    "no version": ("redis", lambda service: service.update(image="redis"), "the image redis is of no version"),
    "the latest": ("redis", lambda service: service.update(image="redis:latest"), "is of no version"),
    "a variable's latest": ("prometheus", lambda service: service.update(image="${X:-a/b:latest}"), "is of no version"),
    "no health": ("reader", lambda service: service.pop("healthcheck"), "no health check"),
    "no restart": ("reader", lambda service: service.pop("restart"), "not started again"),
    "a job that is started again": ("migrate", lambda service: service.update(restart="always"), "ends by itself"),
    "no limits": ("reader", lambda service: service.pop("deploy"), "no limit"),
    "a root that can be written": ("reader", lambda service: service.update(read_only=False), "can be written"),
    "capabilities": ("reader", lambda service: service.update(cap_add=["CHOWN"]), "is given capabilities"),
    "all capabilities": ("postgres", lambda service: service.pop("cap_drop"), "keeps capabilities"),
    "privileges": ("reader", lambda service: service.pop("security_opt"), "may gain privileges"),
    "root": ("reader", lambda service: service.update(user="0:0"), "other than root's"),
    "nobody in particular": ("reader", lambda service: service.pop("user"), "other than root's"),
    "a port of the data": ("redis", lambda service: service.update(ports=["6379:6379"]), "publishes 6379:6379"),
    "an open port": ("balancer", lambda service: service.update(ports=["8080:8080"]), "not bound by variables"),
    "the host's network": ("reader", lambda service: service.update(network_mode="host"), "names no network"),
    "a password": (
        "postgres",
        lambda service: service["environment"].update(POSTGRES_PASSWORD="hunter2"),
        "POSTGRES_PASSWORD is written out",
    ),
    "a word that is no setting": (
        "gateway",
        lambda service: service["environment"].update(KANDEV_PROT="1"),
        "KANDEV_PROT is no setting",
    ),
}


def services() -> dict[str, Service]:
    """The project's own, each to be changed by itself."""
    found: dict[str, Service] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what is checked."""
    for name in FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_projects_own_files_keep_the_rules() -> None:
    assert problems(ROOT) == []


@pytest.mark.parametrize("case", BROKEN)
def test_a_service_that_breaks_a_rule(case: str) -> None:
    name, change, expected = BROKEN[case]
    service = services()[name]
    assert list(service_problems(name, service)) == []
    # A setting shared by services is one object of the document.
    service["environment"] = dict(service.get("environment", {}))
    change(service)
    (problem,) = service_problems(name, service)
    assert expected in problem


@pytest.mark.parametrize(
    ("line", "changed", "expected"),
    [
        ("server-template gateway 64 gateway:8080", "server one gateway:8080", "finds gateways by their name"),
        ("127.0.0.11:53", "10.0.0.1:53", "asks Docker's own DNS"),
        (" init-addr none", "", "starts before its gateways"),
        ("uri /ready", "uri /health", "whether they are ready"),
        ("timeout tunnel 24h", "timeout tunnel 60s", "lets WebSockets be silent"),
        ("balance leastconn", "balance source", "spreads by open connections"),
        ("option forwardfor", "", "says for whom it asks"),
        ("\nbackend rpc\n", "\n", "the backend rpc is not there"),
        ("%HPO", "%HU", "binds clients to a gateway, or writes queries"),
        ("balance leastconn", "balance leastconn\n    cookie SRV insert", "binds clients to a gateway"),
    ],
)
def test_a_balancer_that_breaks_a_rule(line: str, changed: str, expected: str) -> None:
    assert list(balancer_problems(BALANCER)) == []
    found = list(balancer_problems(BALANCER.replace(line, changed)))
    assert [problem for problem in found if expected in problem]


@pytest.mark.parametrize(
    ("name", "line", "changed", "expected"),
    [
        ("docker-compose.yml", "data: {internal: true}", "data: {}", "the network data is not internal"),
        ("Makefile", "UV_VERSION := ", "UV_VERSION := 0.", "different versions of uv"),
        ("deploy/compose/env.example", "KANDEV_BIND=", "KANDEV_BNID=", "KANDEV_BNID is read by no compose file"),
    ],
)
def test_files_that_do_not_fit_together(copy: Path, name: str, line: str, changed: str, expected: str) -> None:
    file = copy / name
    file.write_text(file.read_text(encoding="utf-8").replace(line, changed), encoding="utf-8")
    (problem,) = problems(copy)
    assert expected in problem

"""Writes the Python code of `plugin.proto`, for the services and for the SDK; with `--check`, compares it."""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "services/gateway/rpc/protos"
PROTO = Path("kandev/plugin/v1/plugin.proto")

# Two copies: the SDK is a distribution of its own, and neither may need the other.
PLACES = (ROOT / "shared/host_rpc/generated", ROOT / "sdk/python/kandev_plugin_sdk/_generated")


def made() -> dict[str, bytes]:
    """The generated files by name. They import nothing of one another."""
    with tempfile.TemporaryDirectory() as name:
        bundled = Path(protoc.__file__).parent / "_proto"
        options = [f"--proto_path={PROTOS}", f"--proto_path={bundled}", f"--python_out={name}", f"--pyi_out={name}"]
        if protoc.main(["protoc", *options, str(PROTO)]) != 0:
            raise SystemExit(2)
        return {path.name: path.read_bytes() for path in (Path(name) / PROTO.parent).iterdir()}


def main() -> None:
    """The command."""
    files = made()
    targets = {place / name: content for place in PLACES for name, content in files.items()}
    if "--check" not in sys.argv[1:]:
        for path, content in targets.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return
    stale = [path for path, content in targets.items() if not path.exists() or path.read_bytes() != content]
    for path in stale:
        sys.stderr.write(f"{path.relative_to(ROOT)} is not up to date: run `python -m deploy.checks.protos`\n")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()

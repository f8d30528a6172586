"""`kandev-conversation plugin pack` and `plugin check`: packages of plugins on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
import orjson

from cli.counting import counted
from cli.errors import CommandFailed
from cli.package_files import NoPackageFile, expect_package_file, spelled
from services.gateway.plugins.archive import HOST_PLATFORM, Package, PackageRefused, inspect
from services.gateway.plugins.packing import FolderRefused, read_folder, write_package

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to write the package. [default: ID-VERSION.tar.gz here]",
)
@_AS_JSON
def pack(folder: Path, output: Path | None, as_json: bool) -> None:
    """Make a package of a folder that holds a plugin.

    The folder is laid out as the package is: manifest.yaml at its root, and what the manifest names below ui/ and
    server/. Hidden files and earlier packages are left out; checksums are added. A package that could not be installed
    is not written: everything that is wrong is named.

    \b
    A manifest.yaml to begin with:
      id: my-plugin
      api_version: 2
      version: "1.0.0"
      display_name: My plugin
      min_kandev_version: "0.95.0"
      capabilities:
        api_read: [messages]
      ui:
        bundle: /ui/bundle.js

    \b
    Example:
      kandev-conversation plugin pack my-plugin/
      kandev-conversation plugin install my-plugin-1.0.0.tar.gz

    docs/plugins-manifest.md lists every field.
    """
    if not folder.is_dir():
        raise CommandFailed(f"{spelled(folder)} is not a folder. Expected one with a manifest.yaml in it.")
    try:
        manifest, files = read_folder(folder)
        target = output or Path(f"{manifest.id}-{manifest.version}.tar.gz")
        package = write_package(manifest, files, target)
    except FolderRefused as error:
        _refuse("folder_refused", folder, error.problems, as_json=as_json)
    except PackageRefused as error:
        _refuse(error.kind, folder, error.problems, as_json=as_json)
    except OSError as error:
        place = Path(error.filename) if error.filename else folder
        raise CommandFailed(f"{spelled(place)} cannot be used: {error.strerror or error}.") from None
    _tell(target, package, "", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--platform",
    default=HOST_PLATFORM,
    show_default=True,
    help="Of the host that it is for. Matters where the manifest declares a runtime.",
)
@_AS_JSON
def check(file: Path, platform: str, as_json: bool) -> None:
    """Say whether a package can be installed, by the same rules as an installation.

    Exit codes: 0 it can; 2 it cannot, and why is on standard error. Whether a host is new enough for it
    (min_kandev_version) is found out there.
    """
    try:
        expect_package_file(file)
        package = inspect(file, platform)
    except NoPackageFile as error:
        if as_json:
            _print_refusal("unreadable", [str(error)])
        raise
    except PackageRefused as error:
        _refuse(error.kind, file, error.problems, as_json=as_json)
    except OSError as error:
        raise CommandFailed(f"{spelled(file)} cannot be read: {error.strerror or error}.") from None
    _tell(file, package, " can be installed", as_json=as_json)


def _refuse(kind: str, path: Path, problems: Sequence[str], *, as_json: bool) -> NoReturn:
    if as_json:
        _print_refusal(kind, problems)
    raise CommandFailed("\n  ".join((f"{spelled(path)} cannot be installed:", *problems))) from None


def _print_refusal(kind: str, problems: Sequence[str]) -> None:
    click.echo(orjson.dumps({"ok": False, "kind": kind, "problems": list(problems)}))


def _tell(path: Path, package: Package, verdict: str, *, as_json: bool) -> None:
    manifest, size = package.manifest, path.stat().st_size
    for note in package.notes:
        click.echo(f"Note: {note}.", err=True)
    if as_json:
        facts = {"ok": True, "file": spelled(path), "id": manifest.id, "version": manifest.version, "size": size}
        files = [file.path for file in package.files]
        click.echo(orjson.dumps({**facts, "sha256": package.hash, "files": files, "notes": package.notes}))
        return
    files_told = counted(len(package.files), "file")
    click.echo(f"{spelled(path)}{verdict}: {manifest.id} {manifest.version}, {files_told}, {size:,} bytes")
    click.echo(f"SHA-256 {package.hash}")

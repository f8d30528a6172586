"""What is accepted as a package, what is refused and as what, and that nothing is ever left half done or elsewhere."""

import gzip
import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from services.gateway.plugins.archive import HOST_PLATFORM, LARGEST_ARCHIVE, PackageRefused, inspect, unpack
from services.gateway.plugins.paths import MOST_PARTS
from services.gateway.plugins.tar_stream import LARGEST_CONTENT, MOST_HEADERS, MOST_MEMBERS
from tests.unit.plugins.making import BROWSER_ONLY, changed, member, package_files, packed, sealed, sums, tar, text

MANAGED = {
    **BROWSER_ONLY,
    "runtime": {"type": "binary", "executables": {HOST_PLATFORM: "server/plugin", "x": "server/x"}},
}
GOOD = sealed(package_files())


def refusal(archive: Path) -> PackageRefused:
    """Why it is refused: by looking and by unpacking alike, and nothing is left of it."""
    with pytest.raises(PackageRefused) as looked:
        inspect(archive, None)
    folder = archive.parent / "cache" / "unpacked"
    with pytest.raises(PackageRefused) as unpacked:
        unpack(archive, folder)
    assert (looked.value.kind, looked.value.problems) == (unpacked.value.kind, unpacked.value.problems)
    assert list(folder.parent.iterdir()) == []
    return looked.value


def on_disk(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def modes(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o7777 for path in (folder, *folder.rglob("*"))}


def test_a_package_is_told_whole(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", GOOD)
    package = inspect(archive)
    assert package.manifest.id == "notes"
    assert package.hash == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert not package.signed
    assert {(file.path, file.size, file.sha256) for file in package.files} == {
        (path, len(content), hashlib.sha256(content).hexdigest()) for path, content in GOOD.items()
    }


def test_looking_into_a_package_changes_nothing(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", GOOD)
    inspect(archive)
    assert list(tmp_path.iterdir()) == [archive]


def test_an_unpacked_package_is_what_was_packed_with_modes_of_its_own(tmp_path: Path) -> None:
    files = sealed(package_files(MANAGED, **{"server/plugin": b"\x7fELF", "server/readme": b"r", "a/b/c": b""}))
    archive = packed(tmp_path / "p.tar.gz", files)
    before = os.umask(0o077)
    try:
        unpack(archive, tmp_path / "plugins" / "cache" / "hash")
    finally:
        os.umask(before)
    folder = tmp_path / "plugins" / "cache" / "hash"
    assert on_disk(folder) == files
    found = modes(folder)
    assert {path for path, mode in found.items() if mode == 0o755} == {".", "a", "a/b", "server", "server/plugin", "ui"}
    assert set(found.values()) == {0o755, 0o644}
    assert [path.name for path in folder.parent.iterdir()] == ["hash"]


def test_modes_owners_and_times_of_the_archive_count_for_nothing(tmp_path: Path) -> None:
    info, content = member("ui/bundle.js", b"export default {}")
    info.mode, info.uid, info.mtime = 0o6777, 12345, 1.5
    files = {path: content for path, content in GOOD.items() if path != "ui/bundle.js"}
    unpack(packed(tmp_path / "p.tar.gz", files, (info, content)), tmp_path / "out")
    assert (tmp_path / "out/ui/bundle.js").stat().st_mode & 0o7777 == 0o644


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_of_tar_is_read(tmp_path: Path, form: int) -> None:
    long = "/".join(["deep" * 3] * 15) + "/é.js" if form != tarfile.USTAR_FORMAT else "abcdefgh/" * 15 + "b.js"
    files = sealed(package_files(**{long: b"x" * 100_000, "empty": b""}))
    unpack(packed(tmp_path / "p.tar.gz", files, form=form), tmp_path / "out")
    assert on_disk(tmp_path / "out") == files


def test_folders_and_names_that_begin_with_a_dot_and_a_slash_are_read(tmp_path: Path) -> None:
    folders = [member(name, kind=tarfile.DIRTYPE) for name in ("./", "./ui", "ui/", "assets/")]
    dotted = {f"./{path}": content for path, content in package_files().items()}
    listing = sums({f"./{path}": content for path, content in package_files().items()}).replace(b"\n", b"\r\n")
    unpack(packed(tmp_path / "p.tar.gz", {**dotted, "./checksums.txt": listing}, *folders), tmp_path / "out")
    assert set(on_disk(tmp_path / "out")) == {*GOOD}


def test_a_signature_may_be_there_and_is_not_listed(tmp_path: Path) -> None:
    package = inspect(packed(tmp_path / "p.tar.gz", {**GOOD, "checksums.txt.sig": b"signed"}))
    assert not package.signed


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    archive, folder = packed(tmp_path / "p.tar.gz", GOOD), tmp_path / "out"
    folder.mkdir()
    (folder / "mine").write_text("x")
    with pytest.raises(PackageRefused) as refused:
        unpack(archive, folder)
    assert refused.value.kind == "version_exists"
    assert {path.name for path in tmp_path.iterdir()} == {"p.tar.gz", "out"}
    assert on_disk(folder) == {"mine": b"x"}


def test_of_two_that_unpack_at_once_one_wins_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, folder = packed(tmp_path / "p.tar.gz", GOOD), tmp_path / "out"
    rename = Path.rename

    def overtaken(made: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        unpack(archive, folder)
        return rename(made, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(PackageRefused) as refused:
        unpack(archive, folder)
    assert refused.value.kind == "version_exists"
    assert on_disk(folder) == GOOD
    assert {path.name for path in tmp_path.iterdir()} == {"p.tar.gz", "out"}


def test_nothing_stays_when_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(tmp_path / "p.tar.gz", GOOD)

    def full(self: Path, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(OSError, match="No space"):
        unpack(archive, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [archive]


# Checksums, manifest, platform.


def without(path: str) -> dict[str, bytes]:
    return {each: content for each, content in GOOD.items() if each != path}


@pytest.mark.parametrize(
    ("files", "kind", "says"),
    [
        (package_files(), "missing_checksums", "the package has no checksums.txt"),
        ({**GOOD, "extra.js": b"x"}, "unlisted_file", "not listed in checksums.txt: 'extra.js'"),
        (without("ui/bundle.js"), "checksum_mismatch", "but not in the package: 'ui/bundle.js'"),
        ({**GOOD, "ui/bundle.js": b"changed"}, "checksum_mismatch", "not what checksums.txt says: 'ui/bundle.js'"),
        (without("manifest.yaml"), "checksum_mismatch", "but not in the package: 'manifest.yaml'"),
        ({**GOOD, "checksums.txt": b"what?"}, "missing_checksums", "checksums.txt, line 1: expected"),
        ({**GOOD, "checksums.txt": b"\xff"}, "missing_checksums", "checksums.txt is not UTF-8"),
        ({**GOOD, "checksums.txt": GOOD["checksums.txt"] * 2}, "missing_checksums", "line 3: expected"),
        ({**GOOD, "checksums.txt": sums(without(""))}, "checksum_mismatch", "but not in the package: 'checksums.txt'"),
        (sealed({"ui/bundle.js": b""}), "manifest_invalid", "the package has no manifest.yaml at its root"),
        (sealed({"x/manifest.yaml": b""}), "manifest_invalid", "the package has no manifest.yaml at its root"),
        (sealed(package_files({"id": "B!"})), "manifest_invalid", 'invalid plugin id "B!"'),
        (sealed(package_files({**BROWSER_ONLY, "base_url": "http://x"})), "manifest_invalid", "a remote plugin"),
        (
            sealed({"manifest.yaml": text(BROWSER_ONLY)}),
            "manifest_invalid",
            "ui.bundle names /ui/bundle.js, which is not",
        ),
        (
            sealed(package_files(changed(BROWSER_ONLY, "ui.styles", ["/ui/x.css"]))),
            "manifest_invalid",
            "ui.styles names /ui/x.css, which is not in the package",
        ),
        (sealed(package_files(**{"manifest.yaml": b"#" * (1024 * 1024 + 1)})), "too_large", "manifest.yaml is larger"),
        ({**GOOD, "checksums.txt": b"\n" * (1024 * 1024 + 1)}, "too_large", "checksums.txt is larger than 1,048,576"),
    ],
)
def test_what_does_not_agree_is_refused(tmp_path: Path, files: dict[str, bytes], kind: str, says: str) -> None:
    refused = refusal(packed(tmp_path / "p.tar.gz", files))
    assert refused.kind == kind
    assert says in refused.message


def test_every_problem_of_a_manifest_is_told(tmp_path: Path) -> None:
    refused = refusal(packed(tmp_path / "p.tar.gz", sealed(package_files({"api_version": 7}))))
    assert len(refused.problems) == 3


@pytest.mark.parametrize("executables", [{HOST_PLATFORM: "server/plugin", "x": "server/x"}, {"x": "server/x"}])
def test_the_platform_is_the_host_s(tmp_path: Path, executables: dict[str, str]) -> None:
    files = sealed(package_files(changed(MANAGED, "runtime.executables", executables), **{"server/x": b""}))
    archive = packed(tmp_path / "p.tar.gz", files)
    assert inspect(archive, "x").manifest.id == "notes"
    with pytest.raises(PackageRefused, match=f"no executable for the platform {HOST_PLATFORM}") as refused:
        inspect(archive)
    assert refused.value.kind == "platform_not_supported"


def test_a_package_for_another_platform_is_unpacked_all_the_same(tmp_path: Path) -> None:
    files = sealed(package_files(changed(MANAGED, "runtime.executables", {"x": "server/x"}), **{"server/x": b""}))
    unpack(packed(tmp_path / "p.tar.gz", files), tmp_path / "out")
    assert on_disk(tmp_path / "out") == files


def test_everything_that_does_not_agree_is_told_at_once(tmp_path: Path) -> None:
    declared = changed(BROWSER_ONLY, "ui.styles", ["/ui/none.css"])
    files = sealed(package_files(declared, gone=b"", changed=b"")) | {"changed": b"1", "extra": b""}
    del files["gone"]
    refused = refusal(packed(tmp_path / "p.tar.gz", files))
    assert refused.kind == "unlisted_file"
    assert refused.problems == (
        "not listed in checksums.txt: 'extra'",
        "listed in checksums.txt, but not in the package: 'gone'",
        "not what checksums.txt says: 'changed'",
        "ui.styles names /ui/none.css, which is not in the package",
    )


def test_what_is_probably_not_meant_is_noted(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", sealed(package_files({**BROWSER_ONLY, "colour": "red"})))
    assert inspect(archive).notes == ('the key "colour" is unknown here and counts for nothing',)


def test_a_gzip_of_several_streams_is_read(tmp_path: Path) -> None:
    content = tar(*(member(name, data) for name, data in GOOD.items()))
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(
        b"".join(gzip.compress(content[at : at + 700]) for at in range(0, len(content), 700)) + bytes(9)
    )
    unpack(archive, tmp_path / "out")
    assert on_disk(tmp_path / "out") == GOOD


def test_more_gzip_streams_than_any_package_needs_are_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "p.tar.gz", GOOD)
    archive.write_bytes(archive.read_bytes() + gzip.compress(b"") * MOST_MEMBERS)
    refused = refusal(archive)
    assert (refused.kind, refused.message) == ("too_large", "the archive is made of more than 4,096 gzip streams")


def test_more_folders_than_any_plugin_has_are_refused(tmp_path: Path) -> None:
    deep = "/".join("abcdefghijklmn")
    files = {f"{number}/{deep}": b"" for number in range(1500)}
    refused = refusal(packed(tmp_path / "p.tar.gz", {**GOOD, **files}))
    assert (refused.kind, refused.message) == ("too_large", "the package has more than 20,000 files and folders")


def test_a_path_of_more_parts_than_any_plugin_has_is_refused(tmp_path: Path) -> None:
    deepest = "/".join("a" * MOST_PARTS)
    unpack(packed(tmp_path / "p.tar.gz", sealed(package_files(**{deepest: b""}))), tmp_path / "out")
    refused = refusal(packed(tmp_path / "q.tar.gz", {**GOOD, f"{deepest}/a": b""}))
    assert refused.kind == "path_traversal"
    assert "must not have more than 16 parts" in refused.message


def test_many_files_that_nobody_listed_are_counted(tmp_path: Path) -> None:
    files = {**GOOD, **{f"extra-{number:03}": b"" for number in range(30)}}
    refused = refusal(packed(tmp_path / "p.tar.gz", files))
    assert "'extra-019' and 10 more" in refused.message


# Names and kinds of entries.


@pytest.mark.parametrize(
    "name",
    [
        "/etc/cron.d/x",
        "../outside",
        "ui/../../outside",
        "ui/..",
        "..",
        "a//b",
        "a/./b",
        "././a",
        "a\\b",
        "..\\outside",
        "C:/x",
        "c:x",
        "a:stream",
        "a.",
        "a ",
        "ui./x",
        "...",
        "a\nb",
        "a\x1bb",
        "a\x7fb",
        "a\x85b",
        "a\u2028b",
        "x" * 201,
        "é" * 101,
        "/".join(["x" * 100] * 6),
    ],
)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_a_name_that_could_be_another_s_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    files = {**GOOD, "checksums.txt": GOOD["checksums.txt"] + f"{hashlib.sha256(b'').hexdigest()}  {name}\n".encode()}
    refused = refusal(packed(tmp_path / "p.tar.gz", files, member(name, kind=kind)))
    assert refused.kind == "path_traversal"
    assert "the path " in refused.message


def test_a_name_without_anything_is_refused(tmp_path: Path) -> None:
    assert refusal(packed(tmp_path / "p.tar.gz", GOOD, member(""))).kind == "path_traversal"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a", "a"], "'a' is there twice"),
        (["./a", "a"], "'a' is there twice"),
        (["manifest.yaml"], "'manifest.yaml' is there twice"),
        (["checksums.txt"], "'checksums.txt' is there twice"),
        (["Manifest.yaml"], "are one name on some systems"),
        (["UI/x"], "are one name on some systems"),
        (["straße", "STRASSE"], "are one name on some systems"),
        (["\u00e9", "e\u0301"], "are one name on some systems"),
        (["a", "a/b"], "'a' is both a file and a folder"),
        (["a/b", "a"], "'a' is both a file and a folder"),
        (["a/", "a"], "'a' is both a file and a folder"),
        (["a", "a/"], "'a' is both a file and a folder"),
        (["a/b/c", "a/b"], "'a/b' is both a file and a folder"),
    ],
)
def test_names_that_meet_are_refused(tmp_path: Path, names: list[str], says: str) -> None:
    more = [member(name, kind=tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE) for name in names]
    refused = refusal(packed(tmp_path / "p.tar.gz", GOOD, *more))
    assert refused.kind == "path_traversal"
    assert says in refused.message


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.CONTTYPE, "no regular file"),
        (tarfile.GNUTYPE_SPARSE, "no regular file"),
        (b"Z", "no regular file"),
    ],
)
def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path, kind: bytes, says: str) -> None:
    refused = refusal(packed(tmp_path / "p.tar.gz", GOOD, member("link", kind=kind, link="/etc/passwd")))
    assert refused.kind == "path_traversal"
    assert f"'link' is {says}" in refused.message


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = member("ui2", kind=tarfile.SYMTYPE, link=str(outside))
    assert refusal(packed(tmp_path / "p.tar.gz", GOOD, link, member("ui2/x", b"x"))).kind == "path_traversal"
    assert list(outside.iterdir()) == []


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    raw = tar(member("abcd")).replace(b"abcd", b"ab\xff\xfe", 1)
    block = bytearray(raw[:512])
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\x00 " % sum(block)
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(bytes(block) + raw[512:]))
    refused = refusal(archive)
    assert (refused.kind, refused.message) == ("path_traversal", "the name of a file is not UTF-8")


# Damage, and headers that lie.


def header(name: bytes = b"a", size: bytes = b"0", kind: bytes = b"0") -> bytes:
    """A header with these fields as they are, and a right sum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\x00 " % sum(block)
    return bytes(block)


def extension(content: bytes, kind: bytes = b"x") -> bytes:
    return header(b"ext", b"%o" % len(content), kind) + content.ljust(-(-len(content) // 512) * 512, b"\x00")


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    return next(b"%d%b" % (n, body) for n in range(4, 999) if len(b"%d%b" % (n, body)) == n)


DAMAGED: dict[str, tuple[bytes, str, str]] = {
    "no gzip": (b"PK\x03\x04", "malformed", "no complete gzip file"),
    "cut gzip": (gzip.compress(tar(*[member("a", os.urandom(4000))]))[:-20], "malformed", "no complete gzip file"),
    "rotten gzip": (gzip.compress(tar(member("a")))[:-8] + b"\x00" * 8, "malformed", "no complete gzip file"),
    "no gzip after it": (gzip.compress(tar(member("a"))) + b"junk", "malformed", "no complete gzip file"),
    "no tar": (gzip.compress(b"x" * 2000), "malformed", "a header is damaged"),
    "cut header": (gzip.compress(header()[:300]), "malformed", "ends within a header"),
    "wrong sum": (gzip.compress(header().replace(b"a", b"b", 1)), "malformed", "a header is damaged"),
    "cut content": (gzip.compress(header(size=b"7777") + b"x" * 100), "malformed", "ends within a file"),
    "cut padding": (gzip.compress(header(size=b"1") + b"x"), "malformed", "ends within a file"),
    "size no number": (gzip.compress(header(size=b"9z")), "malformed", "a header is damaged"),
    "size binary": (gzip.compress(header(size=b"\x80" + b"\xff" * 11)), "malformed", "many gigabytes"),
    "size negative": (gzip.compress(header(size=b"-1")), "malformed", "a header is damaged"),
    "size huge": (gzip.compress(header(size=b"77777777777")), "too_large", "unpacks to more than"),
    "folder with content": (gzip.compress(header(b"a/", b"1")), "malformed", "the folder 'a/' has content"),
    "second archive": (gzip.compress(tar(member("a")) + tar(member("b"))), "malformed", "something follows the end"),
    "extension cut": (gzip.compress(header(size=b"100", kind=b"x")), "malformed", "ends within a file"),
    "extension alone": (gzip.compress(extension(record("path", "a"))), "malformed", "an extension header has no file"),
    "extension large": (
        gzip.compress(header(size=b"777777777", kind=b"x")),
        "too_large",
        "an extension header is larger",
    ),
    "long name large": (
        gzip.compress(header(size=b"777777777", kind=b"L")),
        "too_large",
        "an extension header is larger",
    ),
    "record no number": (
        gzip.compress(extension(b"x path=a\n") + header()),
        "malformed",
        "an extension header is damaged",
    ),
    "record short": (gzip.compress(extension(b"3 path=a\n") + header()), "malformed", "an extension header is damaged"),
    "record long": (gzip.compress(extension(b"99 path=a\n") + header()), "malformed", "an extension header is damaged"),
    "record size": (gzip.compress(extension(record("size", "-1")) + header()), "malformed", "header is damaged"),
    "record size long": (
        gzip.compress(extension(record("size", "1" * 90)) + header()),
        "malformed",
        "header is damaged",
    ),
    "record huge": (gzip.compress(extension(record("size", "9" * 12)) + header()), "too_large", "unpacks to more than"),
    "record sparse": (
        gzip.compress(extension(record("GNU.sparse.major", "1")) + header()),
        "path_traversal",
        "a sparse file",
    ),
    "record traverses": (
        gzip.compress(extension(record("path", "../x")) + header()),
        "path_traversal",
        "the path '../x' must be a clean",
    ),
    "long name traverses": (
        gzip.compress(extension(b"/etc/x\x00", b"L") + header()),
        "path_traversal",
        "the path '/etc/x' must be relative",
    ),
    "named twice": (
        gzip.compress(extension(b"b\x00", b"L") + extension(record("path", "c")) + header()),
        "malformed",
        "named or sized twice",
    ),
    "global name": (gzip.compress(extension(record("path", "b"), b"g") + header()), "malformed", "a global header"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_archive_is_refused(tmp_path: Path, case: str) -> None:
    data, kind, says = DAMAGED[case]
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(data)
    refused = refusal(archive)
    assert (refused.kind, says in refused.message) == (kind, True), refused.message


def test_the_length_in_an_extension_is_the_length(tmp_path: Path) -> None:
    """Other readers take the header's own: what they would see as a file is content here, and the sums say so."""
    smuggled = header(b"evil", b"0")
    raw = extension(record("size", "512")) + header(b"a", b"0") + smuggled
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(raw + tar(*(member(path, content) for path, content in GOOD.items()))))
    assert "not listed in checksums.txt: 'a'" in refusal(archive).message


def test_extensions_that_say_nothing_of_names_are_passed_over(tmp_path: Path) -> None:
    raw = extension(record("comment", "of git"), b"g") + extension(record("SCHILY.xattr.x", "\x00y"))
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(raw + tar(*(member(path, content) for path, content in GOOD.items()))))
    assert inspect(archive).manifest.id == "notes"


def test_a_number_that_is_left_out_is_zero(tmp_path: Path) -> None:
    raw = header(b"ui/", b"\x00", b"5") + tar(*(member(path, content) for path, content in GOOD.items()))
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(raw))
    assert inspect(archive).manifest.id == "notes"


def test_a_folder_need_not_end_with_a_slash(tmp_path: Path) -> None:
    raw = header(b"ui", kind=b"5") + tar(*(member(path, content) for path, content in GOOD.items()))
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(raw))
    assert inspect(archive).manifest.id == "notes"


def test_what_gnu_keeps_in_the_place_of_a_prefix_is_no_name(tmp_path: Path) -> None:
    members = tar(*(member(path, content) for path, content in GOOD.items()), form=tarfile.GNU_FORMAT)
    block = bytearray(members[:512])
    block[345:357] = b"14731000000\x00"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\x00 " % sum(block)
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(bytes(block) + members[512:]))
    assert inspect(archive).manifest.id == "notes"


# Bombs.


def zeros(output: gzip.GzipFile, size: int) -> None:
    chunk = bytes(1024 * 1024)
    for _ in range(size // len(chunk)):
        output.write(chunk)
    output.write(bytes(size % len(chunk)))


def one_large_file(output: gzip.GzipFile) -> None:
    output.write(header(b"a", b"%o" % (LARGEST_CONTENT + 1)))
    zeros(output, LARGEST_CONTENT + 1)


def many_files(output: gzip.GzipFile) -> None:
    for number in range(22):
        output.write(header(b"%d" % number, b"%o" % (10 * 1024 * 1024)))
        zeros(output, 10 * 1024 * 1024)


def endless_end(output: gzip.GzipFile) -> None:
    zeros(output, LARGEST_CONTENT + 32 * 1024 * 1024)


@pytest.mark.parametrize("make", [one_large_file, many_files, endless_end])
def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, make: Callable[[gzip.GzipFile], None]) -> None:
    archive = tmp_path / "p.tar.gz"
    with gzip.open(archive, "wb", compresslevel=1) as output:
        assert isinstance(output, gzip.GzipFile)
        make(output)
    assert archive.stat().st_size < 2 * 1024 * 1024
    refused = refusal(archive)
    assert (refused.kind, refused.message) == ("too_large", "the package unpacks to more than 209,715,200 bytes")


def test_more_entries_than_any_plugin_has_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(gzip.compress(b"".join(header(b"%d" % number) for number in range(MOST_HEADERS + 1)), 1))
    refused = refusal(archive)
    assert (refused.kind, refused.message) == ("too_large", "the archive has more than 10,000 entries")


def test_a_large_archive_is_refused_unread(tmp_path: Path) -> None:
    archive = tmp_path / "p.tar.gz"
    with archive.open("wb") as output:
        output.truncate(LARGEST_ARCHIVE + 1)
    refused = refusal(archive)
    assert (refused.kind, refused.message) == ("too_large", "the archive is larger than 104,857,600 bytes")

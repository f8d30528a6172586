"""Whatever an archive holds: it is accepted with exactly the files it lists, or refused and nothing is left of it."""

import gzip
import hashlib
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from services.gateway.plugins.archive import PackageRefused, inspect, unpack
from tests.unit.plugins.making import member, package_files, sealed, tar

PARTS = st.sampled_from(
    ["a", "b", "A", "..", ".", "", "ui", "bundle.js", "é", "e\u0301", "c:", "d\\e", "x.", "\x07", "manifest.yaml"]
)
PLAIN = st.sampled_from(["a", "b", "c/a", "c/b", "ui/plugin.css", "./d", "e/f/g", "é"])
NAMES = PLAIN | st.lists(PARTS, min_size=1, max_size=4).map("/".join)
KINDS = st.sampled_from(
    [tarfile.REGTYPE] * 6
    + [tarfile.DIRTYPE] * 2
    + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.AREGTYPE]
)
LINKS = st.sampled_from(["", "/etc", "..", "../../outside", "ui"])


@st.composite
def archives(draw: st.DrawFn) -> tuple[dict[str, bytes], bytes]:
    """Files that are listed, and an archive of them with whatever else, perhaps damaged."""
    honest = draw(st.booleans())
    names = PLAIN if honest else NAMES
    files = package_files(**dict.fromkeys(draw(st.lists(names, max_size=3, unique=True)), b"x"))
    others = st.builds(member, NAMES, st.sampled_from([b"", b"y"]), KINDS, LINKS)
    folders = st.builds(member, st.sampled_from(["c", "./", "z/y/"]), kind=st.just(tarfile.DIRTYPE))
    more = draw(st.lists(folders if honest else others, max_size=3))
    listed = draw(st.sampled_from([sealed(files), sealed(files), files]))
    members = draw(st.permutations([*(member(name, content) for name, content in listed.items()), *more]))
    raw = bytearray(tar(*members, form=draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))))
    for at, byte in draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=0 if honest else 1)
    ):
        raw[at] = byte
    return listed, gzip.compress(bytes(raw), 1)


@settings(max_examples=300, deadline=None)
@given(archives())
def test_an_archive_is_taken_whole_or_not_at_all(made: tuple[dict[str, bytes], bytes]) -> None:
    listed, data = made
    with tempfile.TemporaryDirectory() as name:
        inside = Path(name) / "plugins"
        inside.mkdir()
        archive = inside / "p.tar.gz"
        archive.write_bytes(data)
        refused = refusal(lambda: unpack(archive, inside / "out"))
        assert refusal(lambda: inspect(archive)) == refused
        event(str(refused))
        if refused is not None:
            assert {path.name for path in inside.iterdir()} == {"p.tar.gz"}
        else:
            expected = {path.removeprefix("./"): content for path, content in listed.items()}
            found = [path for path in (inside / "out").rglob("*") if not path.is_dir()]
            assert not any(path.is_symlink() for path in found)
            assert {path.relative_to(inside / "out").as_posix(): path.read_bytes() for path in found} == expected
            told = {(file.path, file.sha256) for file in inspect(archive).files}
            assert told == {(path, hashlib.sha256(content).hexdigest()) for path, content in expected.items()}
        assert {path.name for path in Path(name).iterdir()} == {"plugins"}


def refusal(act: Callable[[], object]) -> str | None:
    try:
        act()
    except PackageRefused as error:
        return error.kind
    return None

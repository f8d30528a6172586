"""Names of files in a package: relative, made of plain parts, and the same on every file system."""

import re
import unicodedata
from collections.abc import Callable

LONGEST_PATH = 512
"""Bytes of a whole path."""

LONGEST_PART = 200
"""Bytes of one part of a path: what every file system takes."""

MOST_PARTS = 16
"""Folders within each other, and the file: every one of them costs an entry on the disk."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# What is refused would leave the package's folder, or mean another file on some system: Windows takes a backslash for
# a slash and `a:b` for a drive or a stream, and drops dots and blanks at the end of a name.
_RULES: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda path: bool(_UNPRINTABLE.search(path)), "must not contain control characters"),
    (lambda path: "\\" in path or ":" in path, "must not contain a backslash or a colon"),
    (lambda path: path.startswith("/"), "must be relative"),
    (
        lambda path: not {"", ".", ".."}.isdisjoint(path.split("/")),
        'must be a clean relative path with no ".." segments',
    ),
    (
        lambda path: any(part.endswith((".", " ")) for part in path.split("/")),
        "must not contain a name that ends with a dot or a blank",
    ),
    (
        lambda path: len(path.encode()) > LONGEST_PATH or len(max(path.encode().split(b"/"), key=len)) > LONGEST_PART,
        f"must not be longer than {LONGEST_PATH} bytes, and no name in it longer than {LONGEST_PART}",
    ),
    (lambda path: path.count("/") >= MOST_PARTS, f"must not have more than {MOST_PARTS} parts"),
)


def path_problem(path: str) -> str | None:
    """Why no file of a package may have this path; `None` if one may. Completes the sentence "the path ..."."""
    return next((sentence for broken, sentence in _RULES if broken(path)), None)


class Spellings:
    """The paths of one package, so that no two of them meet on a file system that ignores case or Unicode forms."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._spellings: dict[str, str] = {}

    def __len__(self) -> int:
        """How many files and folders there are."""
        return len(self._spellings)

    def clash(self, path: str, *, folder: bool = False) -> str | None:
        """Takes in one more path. Says why it cannot stand beside the earlier ones, or `None`."""
        parts = path.split("/")
        folders = ["/".join(parts[:end]) for end in range(1, len(parts))]
        for spelled in (*folders, path):
            known = self._spellings.setdefault(_everywhere(spelled), spelled)
            if known != spelled:
                return f"{spelled!r} and {known!r} are one name on some systems"
        if folder:
            folders.append(path)
        elif path in self._files:
            return f"{path!r} is there twice"
        else:
            self._files.add(path)
        self._folders.update(folders)
        both = [each for each in (*folders, path) if each in self._files and each in self._folders]
        return f"{both[0]!r} is both a file and a folder" if both else None


def _everywhere(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())

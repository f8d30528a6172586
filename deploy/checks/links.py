"""Every relative link in the documentation leads to a file, and every anchor to a heading.

`python -m deploy.checks.links [FOLDER]` prints the broken ones and ends with code 1 when there are any.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

SKIPPED = {".venv", ".data", ".cache", ".git", "node_modules", "dist"}
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")


def documents(root: Path) -> Iterator[Path]:
    """Every Markdown file below `root` that belongs to the project."""
    for path in sorted(root.rglob("*.md")):
        if not SKIPPED.intersection(path.relative_to(root).parts):
            yield path


def targets(text: str) -> list[str]:
    """Where the links of one document lead, code left out."""
    prose = INLINE_CODE.sub("", FENCE.sub("", text))
    return LINK.findall(prose) + REFERENCE.findall(prose)


def anchors(text: str) -> set[str]:
    """Names that a link into this document may use, as GitHub makes them from headings."""
    bare = FENCE.sub("", text)
    found: set[str] = set(ANCHOR.findall(bare))
    seen: dict[str, int] = {}
    for heading in HEADING.findall(bare):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(slug if count == 0 else f"{slug}-{count}")
    return found


def broken(root: Path) -> list[str]:
    """One sentence per link that leads nowhere."""
    return [
        f"{document.relative_to(root)}: {target}: {problem}"
        for document in documents(root)
        for target in targets(document.read_text(encoding="utf-8"))
        if not ELSEWHERE.match(target) and (problem := _problem(root, document, target))
    ]


def _problem(root: Path, document: Path, target: str) -> str | None:
    name, _, anchor = unquote(target).partition("#")
    start = root if name.startswith("/") else document.parent
    path = (start / name.lstrip("/")).resolve() if name else document
    if not path.exists():
        return "no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
        return "no such heading"
    return None


def main() -> None:
    """Checks the folder given, or the current one."""
    problems = broken(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(problems) or "All relative links lead somewhere.")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

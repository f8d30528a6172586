"""Which links of the documentation count as broken."""

from pathlib import Path

import pytest

from deploy.checks.links import broken


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text('# First steps: `up`\n\n## Again\n\n## Again\n\n<a id="own"></a>\n')
    return tmp_path


@pytest.mark.parametrize(
    "link",
    [
        "[a](docs/guide.md)",
        "[a](docs/guide.md#first-steps-up)",
        "[a](docs/guide.md#again-1)",
        "[a](docs/guide.md#own)",
        "[a](docs)",
        "[a](/docs/guide.md)",
        "[a](https://example.org/nowhere)",
        "[a](mailto:somebody@example.org)",
        "[a]: docs/guide.md",
        "`[a](nowhere.md)`",
        "```\n[a](nowhere.md)\n```",
    ],
)
def test_a_link_that_leads_somewhere_or_is_no_link_of_ours_passes(folder: Path, link: str) -> None:
    (folder / "README.md").write_text(link + "\n")
    assert broken(folder) == []


@pytest.mark.parametrize(
    "link", ["[a](nowhere.md)", "[a](docs/guide.md#nowhere)", "[a](#nowhere)", "[a]: nowhere.md", "![a](nowhere.png)"]
)
def test_a_link_that_leads_nowhere_is_reported_with_its_document(folder: Path, link: str) -> None:
    (folder / "README.md").write_text(link + "\n")
    assert [line.startswith("README.md: ") and "nowhere" in line for line in broken(folder)] == [True]


def test_folders_of_tools_are_left_out(folder: Path) -> None:
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "README.md").write_text("[a](nowhere.md)\n")
    assert broken(folder) == []

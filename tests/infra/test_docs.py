"""The docs are as the code is, and short enough to be read."""

import re
from pathlib import Path

import pytest
import yaml
from hardpack.policy import Policies

from infra.docs import policies_page, report_schema, settings_page

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
WIDEST = 100
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("made", [settings_page, policies_page, report_schema], ids=["settings", "policies", "schema"])
def test_pages_that_are_made_of_a_model_are_as_it_is(made):
    assert made.PAGE.read_text() == made.page(), "make docs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_lines_are_short(path):
    wide = [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDEST]
    assert wide == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    lost = [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()]
    assert lost == []


def test_the_readme_is_read_in_a_minute():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_policy_files_of_the_docs_can_be_loaded():
    blocks = [b for page in PAGES for b in re.findall(r"```yaml\n(policies:.*?)```", page.read_text(), re.DOTALL)]
    assert len(blocks) >= 2
    for block in blocks:
        Policies.model_validate(yaml.safe_load(block))

"""The docs as a site: no link leads nowhere, and nothing is fetched from elsewhere."""

import re
import subprocess
import sys

from tests.conftest import ROOT


def test_the_site_is_whole(tmp_path):
    command = [sys.executable, "-m", "infra.docs.site", "--to", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert {"index.html", "architecture/index.html", "policies/index.html", "library/index.html"} <= set(pages)
    assert "clean_or_replan" in pages["library/index.html"]
    fetched = [r"<(?:link|script|img)[^>]*(?:src|href)=\"https?:[^\"]*", r"@import[^;]*https?:"]
    found = {hit for text in pages.values() for form in fetched for hit in re.findall(form, text)}
    assert found == set()

"""The notes of changes make a changelog."""

import subprocess
import sys

from tests.conftest import ROOT

NOTES = ROOT / "docs" / "changes"


def test_every_note_is_part_of_the_next_changelog():
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2026-01-01"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    text = " ".join(done.stdout.split())
    assert "## 9.9.9, 2026-01-01" in text
    assert "Formats" in text
    notes = [file for file in NOTES.iterdir() if not file.name.startswith(".")]
    for note in notes:
        assert " ".join(note.read_text().split()) in text, note.name

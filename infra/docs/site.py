"""Makes the docs a site that is read without the repository: python -m infra.docs.site. Nothing is from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import yaml

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
MOVED = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
         "SECURITY.md": "security.md"}  # fmt: skip
"""Pages that lie beside the folder of docs, and what they are called in the site."""
LIBRARY = """# Library

```python
from hardpack import Hardpack
```

::: hardpack.api.Hardpack
"""
WIDE = ".md-grid { max-width: 82rem; }\n"
"""The pages have lines of up to 100 characters in their code."""
NAVIGATION: list[dict[str, object]] = [
    {"Quick start": "index.md"},
    {"How it works": ["architecture.md", "equivalence.md", "state.md", {"Decisions": "decisions/README.md"}]},
    {"How to": ["airflow.md", "sinks.md", "reading.md", "production.md", "operations.md", "limits.md"]},
    {"Reference": ["settings.md", "policies.md", {"Library": "library.md"}]},
    {"Measured": "performance.md"},
    {"Project": ["changelog.md", "contributing.md", "security.md"]},
]
CONFIG = {
    "site_name": "hardpack",
    "site_description": "Kafka's log compaction for Apache Iceberg tables.",
    "theme": {
        "name": "material", "font": False, "features": ["navigation.indexes", "content.code.copy"],
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "blue grey"},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "blue grey"},
        ],
    },
    "nav": NAVIGATION,
    "extra_css": ["wide.css"],
    "not_in_nav": "/decisions/\n",
    "exclude_docs": "/changes/\n",
    "plugins": [
        "search",
        {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT / "jobs")], "options": {
            "docstring_style": "google", "show_source": False, "heading_level": 2, "members_order": "source",
            "show_root_heading": False, "show_root_toc_entry": False,
        }}}}},
    ],
    "markdown_extensions": ["admonition", "pymdownx.superfences", {"toc": {"permalink": True}}],
    "validation": {"anchors": "warn"},
}  # fmt: skip


def assemble(folder: Path) -> None:
    """Puts all pages of the site into one folder, and changes their links to fit their places there."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns(".gitkeep"))
    for name, new in MOVED.items():
        (folder / new).write_text((ROOT / name).read_text().replace("](docs/", "]("))
    (folder / "library.md").write_text(LIBRARY)
    (folder / "wide.css").write_text(WIDE)
    for page in folder.rglob("*.md"):
        up = "../" * len(page.relative_to(folder).parts[:-1])
        text = page.read_text()
        for name, new in MOVED.items():
            text = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}(?=[)#])", f"]({up}{new}", text)
        if page.parent == folder / "decisions":
            text = text.replace(f"]({up}index.md", "](README.md")
        page.write_text(text)


def main(to: Annotated[Path, typer.Option(help="the folder to write the site into")] = SITE) -> None:
    """Makes the site; a link that leads nowhere is an error."""
    with tempfile.TemporaryDirectory() as scratch:
        assemble(Path(scratch, "docs"))
        config = Path(scratch, "mkdocs.yml")
        config.write_text(yaml.safe_dump({**CONFIG, "site_dir": str(to.absolute())}, sort_keys=False))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(config)]
        # without it Material prints a notice of its successor at each build
        done = subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    raise typer.Exit(done.returncode)


if __name__ == "__main__":
    typer.run(main)

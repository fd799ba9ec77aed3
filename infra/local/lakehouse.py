"""A SQLite catalog and a warehouse on the local disk, shared by Spark and pyiceberg."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make_lakehouse(home: Path, config_folder: Path) -> dict[str, str]:
    """Make the folders and pyiceberg's configuration; what is there already stays.

    Returns:
        The catalog's properties; pyiceberg reads its file only when it is imported.
    """
    lake = home / "lake"
    (lake / "warehouse").mkdir(parents=True, exist_ok=True)
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    lines = [f"    {name}: {value}" for name, value in properties.items()]
    config = "\n".join(["# made by hardpack's local demo", "catalog:", "  hardpack:", *lines, ""])
    (config_folder / ".pyiceberg.yaml").write_text(config)
    return properties

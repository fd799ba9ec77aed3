"""A SQLite catalog and a warehouse on the local disk, shared by Spark and pyiceberg."""

from pathlib import Path

OURS = "# made by hardpack's local demo"


def make_lakehouse(home: Path, config_folder: Path) -> dict[str, str]:
    """Make the folders and pyiceberg's configuration; a configuration that somebody else wrote stays as it is.

    Returns:
        The catalog's properties; pyiceberg reads its file only when it is imported.
    """
    lake = home / "lake"
    (lake / "warehouse").mkdir(parents=True, exist_ok=True)
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    lines = [f"    {name}: {value}" for name, value in properties.items()]
    config = "\n".join([OURS, "catalog:", "  hardpack:", *lines, ""])
    file = config_folder / ".pyiceberg.yaml"
    if file.exists() and not file.read_text().startswith(OURS):
        raise SystemExit(f"{file} was not written by the demo and would be overwritten; move it away first.")
    file.write_text(config)
    return properties

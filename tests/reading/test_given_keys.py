"""Keys that somebody asks for: bounds that rule no file out by mistake, and keys that are none; no JVM."""

import uuid

import pytest
from hardpack.errors import BadInput
from hardpack.reading.log_files import SnapshotLogs
from pyiceberg.types import UUIDType

from tests.reading.tables import filled, read


def with_bounds(monkeypatch, column, low, high):
    """Every file's manifest has these bounds of a column."""
    real = SnapshotLogs._log_file

    def log_file(logs, file, shared):
        found = real(logs, file, shared)
        number = logs.table.schema().find_field(column).field_id
        found.listed.lower_bounds[number], found.listed.upper_bounds[number] = low, high
        return found

    monkeypatch.setattr(SnapshotLogs, "_log_file", log_file)


def test_bounds_of_uuids_rule_no_file_out(catalog, monkeypatch):
    """Java, which puts bounds of row groups together, takes a UUID that begins with a0 for less than one with 10."""
    keys = [uuid.UUID(int=int(first, 16) << 120) for first in ("10", "a0", "11", "20")]
    table = filled(
        catalog, [{"offset": at, "key": key.bytes} for at, key in enumerate(keys)], kinds={"key": UUIDType()}
    )
    with_bounds(monkeypatch, "key", keys[0].bytes, keys[3].bytes)
    for at, key in enumerate(keys):
        assert read(table, key=f'"{key}"', of=("offset",)) == [(at,)]


def test_bounds_of_texts_may_be_cut_within_a_character(catalog, monkeypatch):
    table = filled(catalog, [{"offset": 0, "key": "ä"}, {"offset": 1, "key": "ö"}])
    with_bounds(monkeypatch, "key", b"\xc3", b"\xc4")
    assert read(table, key="ö", of=("offset",)) == [(1,)]
    assert read(table, key="b") == []


@pytest.mark.parametrize("key", ['{"key": "\\ud800", "epoch": 3}', "[" * 100_000])
def test_what_is_no_json_of_a_key_is_a_sentence(catalog, key):
    table = filled(catalog, [{"offset": 0}], column_key="key,epoch")
    with pytest.raises(BadInput, match="the key asked for"):
        read(table, key=key)


def test_half_a_character_is_no_key(catalog):
    with pytest.raises(BadInput, match="half a character"):
        read(filled(catalog, [{"offset": 0}]), key="\ud800")

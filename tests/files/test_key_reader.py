"""Keys of several files read and hashed together are those of each file."""

import random
from unittest.mock import patch

import numpy as np
import pytest
from hardpack.files import key_reader as reading
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.key_hash import FILE_SHIFT, HEAD, POSITION, TOMBSTONE
from hardpack.files.key_reader import KeyColumns, KeyScanFile, read_keys
from hardpack.rules.reference.cleaner import Row
from hardpack.rules.settings import Settings
from hardpack.table.columns import LogColumns
from pyroaring import BitMap

from tests.topics import append, new_topic

FIRST_DIRTY, CHECKPOINT = 40, 70


@pytest.fixture(scope="module")
def logs(catalog):
    """Files of three logs that share keys, with rows without a key and tombstones: each KeyScanFile and its rows."""
    rng, table, found = random.Random(3), new_topic(catalog), []
    for start in range(0, 90, 15):
        for log in (0, 1, 2):
            rows = [
                Row(start + n, rng.choice([None, b"a", b"b", b"c"]), rng.choice([None, b"v"]))
                for n in range(rng.randint(1, 15))
            ]
            append(table, {log: rows})
            found.append((log, rows))
    listed = sorted((t.file for t in table.scan().plan_files()), key=lambda f: f.file_path)
    by_start = {}
    for file in listed:
        bounds = file.lower_bounds[table.schema().find_field("offset").field_id]
        by_start[file.partition[0], int.from_bytes(bounds, "little")] = file
    out = []
    for number, (log, rows) in enumerate(found):
        file = by_start[log, rows[0].offset]
        entry = {
            "file-path": file.file_path, "record-count": file.record_count, "spec-id": file.spec_id,
            "file-size-in-bytes": file.file_size_in_bytes, "partition": list(file.partition), "file-format": "PARQUET",
        }  # fmt: skip
        unread = BitMap(rng.sample(range(len(rows)), len(rows) // 4))
        key_file = KeyScanFile(
            number, ContentFile(entry), str(log), FIRST_DIRTY, CHECKPOINT, False, unread.serialize(), number % 2 == 0
        )
        out.append((key_file, rows, unread))
    return DataFiles.of(table.refresh()), out


@pytest.mark.parametrize("hashed", [1, 7, 100_000])
@pytest.mark.parametrize("of_tail", [False, True])
def test_small_files_share_a_part_and_keep_their_rows(logs, hashed, of_tail):
    files, given = logs
    near = (lambda high: np.ones(len(high), bool)) if of_tail else None
    # of the tail all rows lie below the first dirty offset
    given = [g for g in given if not of_tail or g[1][-1].offset < FIRST_DIRTY]
    columns = KeyColumns(LogColumns.of(files.schema, Settings()), b"salt")
    seen, hashes, keyless, parts = set(), {}, {}, 0
    with patch.object(reading, "ROWS_HASHED", hashed):
        for rows, without in read_keys(files, columns, [key_file for key_file, _, _ in given], near):
            parts += 1
            for number, positions in without.items():
                keyless[number] = keyless.get(number, BitMap()) | positions
            for high, low, offset, place in zip(rows.high, rows.low, rows.offset, rows.place, strict=True):
                number, position = int((place & ~(HEAD | TOMBSTONE)) >> FILE_SHIFT), int(place & POSITION)
                key_file, own, _ = given[[k.number for k, _, _ in given].index(number)]
                row = own[position]
                assert int(offset) == (0 if of_tail else row.offset)
                assert bool(place & HEAD) == (not of_tail and row.offset >= FIRST_DIRTY)
                assert bool(place & TOMBSTONE) == (key_file.tombstones and row.value is None)
                hashes.setdefault((int(high), int(low)), set()).add((key_file.log, row.key))
                seen.add((number, position))
    wanted = {
        (k.number, n): row
        for k, rows, unread in given
        for n, row in enumerate(rows)
        if n not in unread and row.offset < CHECKPOINT
    }
    assert seen == {place for place, row in wanted.items() if row.key is not None}
    assert {(number, n) for number, positions in keyless.items() for n in positions} == set(wanted) - seen
    assert all(len(keys) == 1 for keys in hashes.values())
    assert len(hashes) == len({(k, key) for found in hashes.values() for k, key in found})
    assert parts == 1 if hashed == 100_000 else parts > 1

"""The narrow pass's kernel against a plain dictionary (invariants 1 and 8); no JVM."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hardpack.files.hash_table import KeyTable
from hardpack.files.key_hash import (
    HEAD,
    TOMBSTONE,
    HashedRows,
    HeadKeys,
    by_file,
    high_half,
    living_mask,
    log_hash,
    low_half,
    rising,
    superseded,
)
from hardpack.spark.causes import superseded as narrow
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap


def keyed(keys, head_from, high=lambda key: key * 0x9E3779B97F4A7C15, low=lambda key: key):
    """Rows of one log in order of offset, with chosen hashes."""
    offsets = np.arange(len(keys), dtype=np.uint64)
    places = offsets | np.where(offsets >= head_from, HEAD, np.uint64(0))
    halves = [np.array([f(k) % 2**64 for k in keys], np.uint64) for f in (high, low)]
    return HashedRows(*halves, offsets, places)


def by_dictionary(keys, head_from):
    latest = {k: o for o, k in enumerate(keys) if o >= head_from}
    return [o for o, k in enumerate(keys) if o < latest.get(k, -1)]


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60))
def test_a_row_goes_when_the_head_has_a_later_one_of_its_key(keys, head_from):
    assert np.flatnonzero(superseded(keyed(keys, head_from))[0]).tolist() == by_dictionary(keys, head_from)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60))
def test_keys_whose_hashes_share_their_upper_half_stay_apart(keys, head_from):
    rows = keyed(keys, head_from, high=lambda key: 5 << 60, low=lambda key: key)
    assert np.flatnonzero(superseded(rows)[0]).tolist() == by_dictionary(keys, head_from)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60))
def test_keys_whose_hashes_differ_in_few_bits_stay_apart(keys, head_from):
    rows = keyed(keys, head_from, high=lambda key: (7 << 40) + key, low=lambda key: 0)
    assert np.flatnonzero(superseded(rows)[0]).tolist() == by_dictionary(keys, head_from)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 60), st.randoms(use_true_random=False))
def test_rows_may_come_in_any_order(keys, head_from, random):
    order = list(range(len(keys)))
    random.shuffle(order)
    rows = rising(keyed(keys, head_from).where(np.array(order)))
    dead = rows.offset[superseded(rows)[0]].tolist()
    assert sorted(dead) == by_dictionary(keys, head_from)


@given(st.sets(st.integers(0, 30)), st.lists(st.integers(0, 30), max_size=40), st.booleans())
def test_rows_of_given_keys_are_found(given_keys, keys, alike):
    """Also when all hashes share their upper half."""
    high = (lambda key: 9 << 50) if alike else (lambda key: key * 0x9E3779B97F4A7C15)
    held, rows = (keyed(k, 0, high) for k in (sorted(given_keys), keys))
    parts = [held.where(np.flatnonzero(held.low % np.uint64(3) == n)) for n in range(3)]
    among_these = HeadKeys.merged([HeadKeys.of(part).to_bytes() for part in parts])
    found = among_these.table.find(rows.high, rows.low)
    assert (found >= 0).tolist() == [key in given_keys for key in keys]
    there = rows.where(found >= 0)
    assert among_these.low[found[found >= 0]].tolist() == there.low.tolist()
    assert among_these.high[found[found >= 0]].tolist() == there.high.tolist()


def test_keys_of_no_task_are_none():
    assert len(HeadKeys.merged([]).high) == 0


def test_a_key_knows_whether_its_last_row_is_a_tombstone():
    rows = keyed([3, 1, 2], 0)
    rows.place[1] |= TOMBSTONE
    keys = HeadKeys.merged([HeadKeys.of(rows).to_bytes()])
    assert keys.tombstone[keys.table.find(rows.high, rows.low)].tolist() == [False, True, False]


def test_rows_travel_as_bytes():
    rows = keyed([1, 2, 1], 1)
    again = HashedRows.from_bytes(rows.to_bytes())
    assert all(np.array_equal(getattr(rows, n), getattr(again, n)) for n in ("high", "low", "offset", "place"))


def test_one_half_of_a_hash_is_the_same_in_every_pass():
    one, other = pa.array([b"a", b"b", b""]), pa.array([b"b", b"a", b""])
    log, another = log_hash("0"), log_hash("1")
    high, low = high_half(one, log), low_half(one, log_hash("0", b"s"), b"s")
    high_2, low_2 = high_half(other, log), low_half(other, log_hash("0", b"s"), b"s")
    assert (high[[1, 0, 2]].tolist(), low[[1, 0, 2]].tolist()) == (high_2.tolist(), low_2.tolist())
    low_3, of_another_log = low_half(one, log_hash("0", b"t"), b"t"), high_half(one, another)
    low_4 = low_half(one, log_hash("1", b"s"), b"s")
    assert len({*high.tolist(), *low.tolist(), *low_3.tolist(), *of_another_log.tolist(), *low_4.tolist()}) == 15


def test_keys_that_share_the_half_which_others_can_reckon_are_told_apart():
    count = 3000
    rows = HashedRows(*(np.array(v, np.uint64) for v in ([7] * count, range(count), range(count), range(count))))
    high, low = np.array([7] * 1000, np.uint64), np.arange(0, 2000, 2).astype(np.uint64)
    found = KeyTable(high, low).find(rows.high, rows.low)
    assert found.tolist() == [n // 2 if n < 2000 and n % 2 == 0 else -1 for n in range(count)]
    assert not superseded(rows)[0].any()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**32 - 1)), max_size=40))
def test_places_come_back_by_file(places):
    packed = np.array([f << 32 | p for f, p in places], np.uint64) | HEAD
    found = {(f, int(p)) for f, positions in by_file(packed) for p in positions}
    assert found == set(places)


def test_a_mask_leaves_out_what_the_bitmap_holds():
    assert living_mask(5, BitMap([1, 4]).serialize()).tolist() == [True, False, True, True, False]
    assert living_mask(2, b"").tolist() == [True, True]


@given(
    st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60), st.integers(1, 60), st.integers(1, 3), st.booleans()
)
def test_a_large_file_is_sent_in_parts_of_so_many_rows(keys, head_from, batch, buckets, settle):
    rows, sizes = keyed(keys, head_from), []
    batches = [rows.where(np.arange(at, min(at + batch, len(keys)))) for at in range(0, len(keys), batch)]

    def concat(parts):
        sizes.append(sum(map(len, parts)))
        return real(parts)

    real, file = HashedRows.concat, SimpleNamespace(number=0)
    with (
        patch.object(narrow, "ROWS_PER_TASK", 10),
        patch.object(narrow, "read_keys", lambda *_: ((one, {}) for one in batches)),
        patch.object(HashedRows, "concat", concat),
    ):
        sent = list(narrow._send(None, None, [file], buckets, settle))
    assert max(sizes) < 10 + batch
    assert sum(sizes) == len(keys)
    by_bucket = [[(number, piece) for number, piece in sent if number == own] for own in range(buckets)]
    dead = BitMap()
    for pieces in by_bucket:
        for (_, kind), places in narrow._meet(pieces, False):
            if kind == "superseded":
                dead |= BitMap.deserialize(places)
    assert list(dead) == by_dictionary(keys, head_from)

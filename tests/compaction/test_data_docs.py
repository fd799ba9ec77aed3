"""Which pages of Data Docs are the newest, and what they are called."""

import os

import pytest
from hardpack.compaction.data_docs import newest_pages


@pytest.fixture
def site(tmp_path):
    for at, (title, time) in enumerate(
        [
            ("db.a_b_partition_0-1_published_7", "20261122T075923.725887Z"),
            ("db.a_partition_0_phase_one_gate_3", "20261122T080002.287139Z"),
            ("db.a_b_partition_2_published_8", "20261121T080002.287139Z"),
        ]
    ):
        folder = tmp_path / "validations" / "log_guarantees" / title
        (folder / time).mkdir(parents=True)
        (folder / time / "page.html").write_text("fine")
        os.utime(folder, (1000 - at, 1000 - at))
    return tmp_path


def test_the_newest_come_first(site):
    assert newest_pages(site, 2) == [
        (
            "2026-11-22 08:00:02 UTC db.a partition 0 phase one gate 3",
            "validations/log_guarantees/db.a_partition_0_phase_one_gate_3/20261122T080002.287139Z/page.html",
        ),
        (
            "2026-11-22 07:59:23 UTC db.a_b partition 0-1 published 7",
            "validations/log_guarantees/db.a_b_partition_0-1_published_7/20261122T075923.725887Z/page.html",
        ),
    ]


def test_a_table_has_its_own_pages_alone(site):
    assert [title[24:] for title, _ in newest_pages(site, 9, "db.a_b")] == [
        "db.a_b partition 0-1 published 7",
        "db.a_b partition 2 published 8",
    ]
    assert len(newest_pages(site, 9, "db.a")) == 1
    assert newest_pages(site / "nothing", 9) == []

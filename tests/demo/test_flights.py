"""The flights are the package's, as the README says."""

import json

import pandas as pd
import pyarrow.compute as pc
import pytest
from hardpack.demo import flights, live


@pytest.fixture(scope="module")
def topic():
    return flights.records()


def test_every_flight_is_a_record(topic):
    source = pd.read_csv(flights.source_file())
    values = topic.filter(pc.is_valid(topic["value"]))
    assert len(source) == values.num_rows == 336_776
    assert values["key"].null_count == source["tailnum"].isna().sum() == 2_512
    distances = sum(json.loads(v)["distance"] for v in values["value"].to_pylist())
    assert distances == source["distance"].sum()


def test_offsets_are_dense_and_in_order_of_departure(topic):
    for partition in range(flights.PARTITIONS):
        log = topic.filter(pc.equal(topic["partition"], partition))
        assert log["offset"].to_pylist() == list(range(log.num_rows))
        stamps = log["timestamp"].to_pylist()
        assert stamps == sorted(stamps)


def test_a_key_has_one_partition(topic):
    keyed = topic.filter(pc.is_valid(topic["key"])).to_pandas()
    assert keyed.groupby("key")["partition"].nunique().max() == 1


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)]
)
def test_the_partitioner_is_kafkas(key, hashed):
    """Values of Kafka's own UtilsTest.testMurmur2."""
    from hardpack.demo.topic import Partitioner

    for partitions in (4, 7):
        assert Partitioner(partitions)(key) == (hashed & 0x7FFFFFFF) % partitions


def test_an_aircraft_is_retired_after_sixty_days_and_comes_back(topic):
    rows = topic.filter(pc.is_valid(topic["key"])).to_pandas().sort_values(["key", "timestamp"], kind="stable")
    before = rows.groupby("key")["timestamp"].shift(1)
    gap = rows["timestamp"] - before
    gone = rows["value"].isna()
    assert gone.sum() > 500
    assert (gap[gone] == pd.Timedelta(days=60)).all()
    previous_gone = gone.groupby(rows["key"]).shift(1, fill_value=False)
    assert (gap[~gone & ~previous_gone].dropna() <= pd.Timedelta(days=60)).all()
    assert (previous_gone & ~gone).any()


def test_twelve_months(topic):
    months = list(flights.by_month(topic))
    assert len(months) == 12
    assert sum(m.num_rows for m in months) == topic.num_rows
    assert all(set(m["partition"].to_pylist()) == set(range(4)) for m in months)


def test_days_of_the_live_topic_cover_the_year(topic):
    days = live.day_numbers(topic).to_pylist()
    assert days == sorted(days)
    assert set(days) == set(range(365))

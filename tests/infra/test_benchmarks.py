"""The benchmark's data sets and its judge, on small sizes; no JVM."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest

from tests.benchmarks import datasets
from tests.benchmarks.__main__ import fingerprint
from tests.benchmarks.measure import cost_of
from tests.benchmarks.plots import PLOTS, drawn, points_of


def read(catalog, metadata, query):
    name = datasets.copy_of(metadata, catalog, "looked_at")
    table = datasets.open_lake(catalog).load_table(name)
    files = [t.file.file_path.removeprefix("file://") for t in table.scan().plan_files()]
    return duckdb.sql(query.format(f"read_parquet({files})")).fetchall()[0], files


@pytest.mark.parametrize("name", sorted(datasets.ALL))
def test_a_data_set_is_what_it_says(tmp_path, name):
    data = replace(datasets.ALL[name].scaled(0.0005), logs=min(datasets.ALL[name].logs, 8))
    metadata = datasets.build(data, tmp_path)
    share = data.tail // data.logs
    query = (
        f'select count(*), count(distinct partition), count(distinct (partition, "offset")), '
        f'count(distinct (partition, key)) filter ("offset" < {share}), count(*) filter ("offset" < {share}) from {{}}'
    )
    (rows, logs, offsets, tail_keys, tail), files = read(tmp_path, metadata, query)
    assert (rows, logs) == (data.logs * (share + data.head // data.logs), data.logs)
    assert offsets == rows
    assert tail_keys == tail == share * data.logs
    assert datasets.build(data, tmp_path) == metadata, "it is built once"
    again = datasets.build(data, tmp_path / "again")
    _, others = read(tmp_path / "again", again, query)
    assert fingerprint(duckdb.read_parquet(files)) == fingerprint(duckdb.read_parquet(others))


def test_the_local_head_lies_in_a_tenth_of_the_tail():
    data = datasets.LOCAL.scaled(0.01)
    assert data.near == 0.1
    share = data.tail // data.logs
    order = np.random.default_rng([datasets.SEED, 2]).permutation(share)
    assert set(datasets._head(data, 2)) <= set(order[: share // 10])


def test_a_failure_is_a_figure_too():
    cost = cost_of(lambda: 1 / 0)
    assert cost.failure == "ZeroDivisionError: division by zero"
    assert cost_of(lambda: sum(range(10**6))).cpu_seconds > 0


def test_a_plot_shows_the_medians_of_its_family():
    data = {"name": "uniform_half_x2", "tail": 20_000_000, "head": 20_000_000}
    sets = [
        {"data": data, "medians": {"hardpack": {"seconds": 40.0}, "DELETE": {"failure": "out of memory"}}},
        {"data": data | {"name": "zipf"}, "medians": {"hardpack": {"seconds": 7.0}}},
    ]
    by_rows, *others = PLOTS
    points = list(points_of(by_rows, sets))
    assert points == [{"at": 40.0, "seconds": 40.0, "method": "hardpack"}]
    assert drawn(by_rows, points).to_dict()["layer"][0]["mark"]["type"] == "line"
    assert not any(list(points_of(plot, sets)) for plot in others)

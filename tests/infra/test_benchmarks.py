"""The benchmark's data sets and its judge, on small sizes; no JVM."""

import json
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from tests.benchmarks import datasets, reading, sensing
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


def test_a_pass_is_taken_apart_into_serial_parts_and_stages():
    """Two tasks at once, a pause in which the driver works, and a third task."""
    from tests.benchmarks.scaling import profile_of

    def task(stage, start, end):
        return {
            "Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": {"Launch Time": start, "Finish Time": end},
        }  # fmt: skip

    stages = [{"Stage ID": 1, "Stage Name": "collect at /jobs/spark/find.py:9"}, {"Stage ID": 2, "Stage Name": "count"}]
    events = [
        {"Event": "SparkListenerJobStart", "Stage Infos": stages},
        task(1, 500, 900), task(1, 1_500, 3_500), task(1, 1_500, 2_500), task(2, 5_000, 6_000),
    ]  # fmt: skip
    found = profile_of(events, 1_000, 6_250, 20, 100)
    assert found.stages == {"collect at find.py:9": [1.0, 2.0], "count": [1.0]}
    assert found.serial == {"before collect at find.py:9": 0.5, "before count": 1.5, "after the last task": 0.25}
    assert found.on(1) == 2.25 + 4
    assert found.on(2) == found.on(9) == 2.25 + 3


def test_a_pass_is_continued_by_a_line_and_by_as_many_tasks():
    from tests.benchmarks.scaling import PassProfile, continued

    small = PassProfile(10, 1_000, {"plan": 1.0, "commit": 0.5}, {"read": [2.0]})
    large = PassProfile(40, 4_000, {"plan": 2.5, "commit": 0.5}, {"read": [2.0] * 4})
    told = continued(small, large, 100_000)
    assert told.rows == 1_000
    assert told.serial == {"plan": pytest.approx(50.5), "commit": 0.5}
    assert told.stages == {"read": [2.0] * 100}
    assert told.on(50) == pytest.approx(51 + 4)


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        (sensing, "--tables 3 --logs 2 --changed 1 --rounds 1"),
        (reading, "--rows 20000 --files 4 --seeks 5 --others 1 --rounds 1"),
    ],
)
def test_what_is_seldom_measured_still_runs(capsys, monkeypatch, script, arguments):
    """The scripts check answers themselves; here they are small enough for every day."""
    monkeypatch.setattr("sys.argv", ["", *arguments.split()])
    script.main()
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert told

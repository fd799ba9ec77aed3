"""Dashboard and alerts as code: they name gauges that hardpack sends, and all of them."""

import json
import re

import yaml
from hardpack.compaction.report import LogReport, PassReport
from hardpack.operations.gauges import cleaned, died, sensed

from tests.conftest import ROOT
from tests.operations.test_gauges import log, plan

FOLDER = ROOT / "infra" / "monitoring"


def sent():
    entry = LogReport(
        partition=0, checkpoint_before=None, checkpoint_after=1, log_end=1, rows_before=1, rows_after=1,
        bytes_before=1, bytes_after=1, buffer_utilization_percent=1.0,
    )  # fmt: skip
    report = PassReport(table="t", phase="one", plan="p", now=1, base=1, snapshot=2, logs=(entry,))
    gauges = {**sensed([plan(log())], 0, since=1), **cleaned([report]), **died(0)}
    return {f"hardpack_{name.replace('-', '_')}" for name in gauges}


def named(text):
    return set(re.findall(r"\bhardpack_[a-zA-Z_]+\b", text))


def test_the_dashboard_shows_every_gauge_once():
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    shown = [name for panel in panels for target in panel["targets"] for name in named(target["expr"])]
    assert sorted(shown) == sorted(sent())
    assert all(panel["description"] for panel in panels)


def test_alerts_look_at_gauges_there_are_and_say_what_to_do():
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert named(rule["expr"]) <= sent(), rule["alert"]
        assert rule["annotations"]["description"]


def test_the_mapping_names_policies():
    first, second = yaml.safe_load((FOLDER / "statsd_mapping.yml").read_text())["mappings"]
    got = re.match(first["match"], "airflow.hardpack.orders.max-dirty-percent")
    assert got.groups() == ("orders", "max-dirty-percent")
    hyphened = re.match(first["match"], "airflow.hardpack.my-orders.max-dirty-percent")
    assert hyphened.groups() == ("my-orders", "max-dirty-percent")
    assert re.match(second["match"], "airflow.hardpack.max-dirty-percent").groups() == ("max-dirty-percent",)
    assert not re.match(first["match"], "airflow.hardpack.max-dirty-percent")


def test_every_alert_has_a_runbook():
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    guide = (FOLDER.parents[1] / "docs" / "operations.md").read_text()
    assert {f"### {rule['alert']}" for rule in group["rules"]} <= set(guide.splitlines())

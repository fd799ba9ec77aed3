"""Whom Airflow lets see our pages, and what its OpenLineage provider is told."""

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from hardpack.compaction.report import MaintenanceReport

pytestmark = pytest.mark.dags


def test_whoever_may_see_airflows_pages_may_see_ours(client, monkeypatch):
    """Fab lets its roles Viewer and User see the website, and not what it calls plugins."""
    from airflow.api_fastapi.core_api import security
    from hardpack_airflow import web

    asked = []

    class Manager:
        def is_authorized_view(self, *, access_view, user):
            asked.append(access_view)
            return access_view == AccessView.WEBSITE

    monkeypatch.setattr(security, "get_auth_manager", Manager)
    web.app.dependency_overrides = {security.get_user: lambda: "somebody"}
    assert client.get("/style.css").status_code == 200
    assert asked == [AccessView.WEBSITE]


def test_maintenance_that_drops_rows_has_written_the_table():
    from hardpack_airflow.lineage import lineage_of

    def told(**given):
        report = MaintenanceReport(table="db.t", now=1, snapshots_before=9, snapshots_after=2, **given)
        found = lineage_of("lake", [report.model_dump(mode="json")])
        return [one.name for one in found.inputs], [one.name for one in found.outputs]

    assert told(rows_past_retention=5) == (["db.t"], ["db.t"])
    assert told() == (["db.t"], [])

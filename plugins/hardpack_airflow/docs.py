"""Data Docs inside Airflow's server, behind Airflow's own login.

Every file goes through one authorised route; a static mount would be public even inside a protected application.
"""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse

PREFIX = "/hardpack"

app = FastAPI(title="hardpack", dependencies=[Depends(requires_access_view(AccessView.PLUGINS))])


@app.get("/docs/{path:path}")
def docs(path: str) -> FileResponse:
    """One file of Data Docs; nothing outside their folder."""
    from hardpack.home import default_home

    folder = (default_home() / "data_docs").resolve()
    file = (folder / (path or "index.html")).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        raise HTTPException(404)
    return FileResponse(file)

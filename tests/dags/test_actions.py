"""What the buttons of a table's page start, in whose name, and how refusals are said."""

import re

import pytest

pytestmark = pytest.mark.dags


class Airflow:
    """In the place of Airflow's own API: it starts what it is asked to, and keeps what it was asked."""

    def __init__(self):
        from fastapi import FastAPI, Request

        self.app, self.asked, self.allowed = FastAPI(), [], True
        self.about = {"is_paused": True, "next_dagrun_run_after": None}

        @self.app.post("/api/v2/dags/{dag}/dagRuns")
        async def start(dag: str, request: Request):
            from fastapi import HTTPException

            self.asked.append((dag, (await request.json())["conf"], request.headers.get("cookie")))
            if not self.allowed:
                raise HTTPException(403, "Forbidden")
            return {"dag_run_id": "manual__1+00:00"}

        @self.app.get("/api/v2/dags/{dag}/dagRuns/{run}")
        def run(dag: str, run: str):
            return {"state": f"queued {run}"}

        @self.app.get("/api/v2/dags/{dag}")
        def about(dag: str):
            return self.about


@pytest.fixture
def airflow(monkeypatch):
    from hardpack_airflow import actions

    found = Airflow()
    monkeypatch.setattr(actions, "_airflow", lambda: found.app)
    return found


@pytest.mark.parametrize(
    ("action", "dag", "form"),
    [
        ("clean", "hardpack", {"force": True, "dry_run": False}),
        ("dry_run", "hardpack", {"force": True, "dry_run": True}),
        ("verify", "hardpack_by_hand", {"action": "verify"}),
        ("pause", "hardpack_by_hand", {"action": "pause"}),
        ("resume", "hardpack_by_hand", {"action": "resume"}),
    ],
)
def test_a_button_starts_the_dag_that_does_it_and_tells_how_it_stands(client, topics, airflow, action, dag, form):
    name = topics[1]
    assert f'action="/hardpack/tables/{name}/{action}"' in client.get(f"/tables/{name}").text
    answer = client.post(f"/tables/{name}/{action}", headers={"cookie": "_token=mine"}, follow_redirects=False)
    asked, given, cookie = airflow.asked[0]
    assert (asked, cookie, answer.status_code) == (dag, "_token=mine", 303)
    assert given == form | ({"tables": name} if dag == "hardpack" else {"table": name, "catalog": "hardpack"})
    assert answer.headers["location"] == f"/hardpack/tables/{name}?dag={dag}&run=manual__1%2B00%3A00"
    shown = client.get(answer.headers["location"].removeprefix("/hardpack")).text
    assert "queued manual__1+00:00, and waits until somebody unpauses the DAG" in shown


def test_what_is_asked_for_is_refused_by_a_sentence(client, topics, airflow, tmp_path, monkeypatch):
    name = topics[1]
    answer = client.post(f"/tables/{name}/clean", headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, airflow.asked) == (403, [])
    assert "Another site asked for this" in answer.text
    airflow.allowed = False
    answer = client.post(f"/tables/{name}/clean")
    assert answer.status_code == 403
    assert "Airflow did not start hardpack: Forbidden" in answer.text
    airflow.app.router.routes.clear()
    answer = client.post(f"/tables/{name}/clean")
    assert answer.status_code == 409, "that Airflow has no such DAG is not that there is no such page"
    assert "Airflow did not start hardpack: Not Found" in answer.text
    assert client.post(f"/tables/{name}/drop").status_code == 404
    policies = tmp_path / "policies.yaml"
    policies.write_text("policies: [{name: other, tables: [x.y]}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(policies))
    answer = client.post(f"/tables/{name}/clean")
    assert answer.status_code == 409
    assert f"No policy names {name}, so no DAG cleans it" in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://testserver"}, 303),
        ({"origin": "http://testserver:8080"}, 303),
        ({"origin": "https://lake.example", "x-forwarded-host": "Lake.example:443, proxy2"}, 303),
        ({"origin": "https://airflow.example"}, 303),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://testserver.evil.example"}, 403),
    ],
)
def test_what_a_page_that_is_not_encrypted_sends_is_told_by_its_origin(
    client, topics, airflow, monkeypatch, headers, status
):
    """Browsers send Sec-Fetch-Site over HTTPS and from localhost alone."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/path")
    answer = client.post(f"/tables/{topics[1]}/pause", headers=headers, follow_redirects=False)
    assert (answer.status_code, len(airflow.asked)) == (status, int(status == 303))


def test_what_is_done_by_hand_asks_no_policy(client, topics, airflow, tmp_path, monkeypatch):
    """The page asks Airflow for it; whether a policy is wrong is said by whatever needs one."""
    name, policies = topics[1], tmp_path / "policies.yaml"
    policies.write_text("policies: [")
    monkeypatch.setenv("HARDPACK_POLICIES", str(policies))
    for action in ("pause", "resume", "verify"):
        assert client.post(f"/tables/{name}/{action}", follow_redirects=False).status_code == 303
    assert {dag for dag, *_ in airflow.asked} == {"hardpack_by_hand"}
    answer = client.post(f"/tables/{name}/clean")
    assert answer.status_code == 409
    assert "this is no YAML" in answer.text


def test_a_button_means_the_one_table(client, airflow):
    client.post("/tables/shop.t[1]/clean", follow_redirects=False)
    assert airflow.asked[0][1]["tables"] == "shop.t[[]1]"


def test_an_airflow_that_fails_hides_no_numbers(client, topics, monkeypatch):
    from hardpack_airflow import actions

    async def fails(*_):
        raise RuntimeError("its database is away")

    monkeypatch.setattr(actions, "_ask", fails)
    assert next_run_of(client.get(f"/tables/{topics[1]}").text) == "-"
    assert client.get("/").status_code == 200


def next_run_of(page):
    return re.search(r"<dt>next run</dt><dd>(.*?)</dd>", page)[1]


def test_the_next_run_is_what_airflow_says_of_the_policys_dag(client, topics, airflow, monkeypatch):
    """Not what a cron expression would: DAGs begin paused, and on some nights clocks go back."""
    name = topics[1]
    assert next_run_of(client.get(f"/tables/{name}").text) == "paused"
    assert "<td>paused</td>" in client.get("/", params={"find": name}).text
    airflow.about = {"is_paused": False, "next_dagrun_run_after": "2100-01-02T03:04:05Z"}
    assert "2100-01-02 03:04" in next_run_of(client.get(f"/tables/{name}").text)
    assert "2100-01-02 03:04" in client.get("/", params={"find": name}).text
    airflow.about = {"is_paused": False, "next_dagrun_run_after": None}
    assert next_run_of(client.get(f"/tables/{name}").text) == "-"
    # a table that the one policy of Airflow's section does not name
    airflow.about = {"is_paused": False, "next_dagrun_run_after": "2100-01-02T03:04:05Z"}
    monkeypatch.setenv("AIRFLOW__HARDPACK__TABLES", "shop.*")
    assert next_run_of(client.get(f"/tables/{name}").text) == "-"
    assert client.post(f"/tables/{name}/clean").status_code == 409

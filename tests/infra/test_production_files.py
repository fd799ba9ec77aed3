"""What a production install takes, through the strictest validators that come from a registry; none of it runs here."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

INFRA = ROOT / "infra"
TOOLS = Path(sys.executable).parent


def said(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def hadolint(file):
    return said(TOOLS / "hadolint", file)


def shellcheck(file):
    return said(TOOLS / "shellcheck", file)


def compose_schema(file):
    return said(TOOLS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


def kubernetes(file):
    return said(TOOLS / "kubernetes-validate", "--strict", file)


def iam(file):
    import parliament

    found = parliament.analyze_policy_string(Path(file).read_text()).findings
    return len(found), str(found)


CHECKS = [
    (hadolint, INFRA / "container" / "Containerfile", "FROM python:3.11-slim-bookworm", "FROM python"),
    (shellcheck, INFRA / "container" / "entrypoint.sh", '"$@"', "$@"),
    (compose_schema, INFRA / "compose" / "compose.yaml", "restart: unless-stopped", "restart: [often]"),
    (kubernetes, INFRA / "kubernetes" / "spark.yaml", "verbs: [get", "verbz: [get"),
    (iam, INFRA / "aws" / "policy.json", "s3:GetObject", "s3:GetObjet"),
]


# parliament still asks setuptools for its files
@pytest.mark.filterwarnings("ignore:pkg_resources")
@pytest.mark.parametrize(("check", "file", "right", "wrong"), CHECKS, ids=lambda value: getattr(value, "name", None))
def test_the_validator_agrees_and_would_not_with_a_mistake(check, file, right, wrong, tmp_path):
    assert check(file) == (0, check(file)[1])
    broken = tmp_path / file.name
    assert right in file.read_text()
    broken.write_text(file.read_text().replace(right, wrong))
    assert check(broken)[0] != 0


def test_the_executors_pod_is_a_pod(tmp_path):
    maps = [
        d for d in yaml.safe_load_all((INFRA / "kubernetes" / "spark.yaml").read_text()) if d["kind"] == "ConfigMap"
    ]
    pod = yaml.safe_load(maps[0]["data"]["executor.yaml"])
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod | {"metadata": pod["metadata"] | {"name": "executor"}}))
    assert kubernetes(file) == (0, kubernetes(file)[1])
    assert pod["spec"]["securityContext"]["runAsNonRoot"]


def test_settings_named_in_them_exist():
    table = (ROOT / "docs" / "airflow.md").read_text().partition("| `[hardpack]` |")[2].partition("\n\n")[0]
    known = set(re.findall(r"`(\w+)`", table))
    files = ["compose/compose.yaml", "container/Containerfile"]
    named = {n.lower() for f in files for n in re.findall(r"AIRFLOW__HARDPACK__(\w+)", (INFRA / f).read_text())}
    values = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())
    assert named | set(values["config"]["hardpack"]) <= known


def test_the_image_has_the_executor_that_is_named():
    homes = {
        "LocalExecutor": "apache-airflow", "CeleryExecutor": "apache-airflow-providers-celery",
        "KubernetesExecutor": "apache-airflow-providers-cncf-kubernetes",
    }  # fmt: skip
    values = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())
    lock = (INFRA / "container" / "requirements.lock").read_text()
    # the chart sets Fab's auth manager, and logs go to S3 by way of the connection to AWS
    assert values["config"]["logging"]["remote_base_log_folder"].startswith("s3://")
    for package in (homes[values["executor"]], "apache-airflow-providers-fab", "apache-airflow-providers-amazon"):
        assert re.search(rf"^{package}==", lock, re.MULTILINE), package


def test_on_kubernetes_no_disk_is_shared():
    values = (INFRA / "kubernetes" / "airflow-values.yaml").read_text()
    assert "persistentVolumeClaim" not in values
    assert "s3://" in yaml.safe_load(values)["config"]["hardpack"]["reports_s3"]


def test_executors_can_call_the_driver_back():
    values = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())
    (name,) = yaml.safe_load(values["extraEnv"])
    assert name == {"name": "SPARK_LOCAL_HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def documents(name):
    return [d for d in yaml.safe_load_all((INFRA / "kubernetes" / name).read_text()) if d]


def test_whoever_drives_spark_can_mount_none_of_airflows_secrets():
    """A right to make pods is a right to read every secret of the namespace."""
    airflow, named = "hardpack", documents("spark.yaml")
    assert [d["metadata"]["namespace"] for d in named if d["kind"] in ("Role", "RoleBinding")] == ["hardpack-spark"] * 2
    assert not [d for d in named if d["kind"].startswith("Cluster")]
    (account,) = [d for d in named if d["kind"] == "ServiceAccount"]
    assert account["metadata"]["namespace"] == airflow
    (role,) = [d for d in named if d["kind"] == "Role"]
    assert not {"secrets", "pods/exec", "*"} & {r for rule in role["rules"] for r in rule["resources"]}
    (settings,) = [d for d in named if d["kind"] == "ConfigMap"]
    assert "spark.kubernetes.namespace hardpack-spark\n" in settings["data"]["spark-defaults.conf"]
    pod = yaml.safe_load(settings["data"]["executor.yaml"])["spec"]
    assert pod["automountServiceAccountToken"] is False
    secrets = [e["secretRef"]["name"] for container in pod["containers"] for e in container["envFrom"]]
    assert secrets == ["hardpack-catalog"]
    values = (INFRA / "kubernetes" / "airflow-values.yaml").read_text()
    assert '"namespace": "hardpack-spark"' in values


def test_the_catalogs_password_does_not_open_airflows_database():
    text = (INFRA / "compose" / "compose.yaml").read_text()
    compose = yaml.safe_load(text)
    uri = compose["x-airflow"]["environment"]["PYICEBERG_CATALOG__HARDPACK__URI"]
    assert "//iceberg:${CATALOG_PASSWORD:?}@" in uri
    assert "REVOKE CONNECT ON DATABASE airflow" in compose["configs"]["databases"]["content"]


def test_images_from_elsewhere_are_pinned_by_digest_or_say_that_they_are_to_be():
    named = re.compile(r"FROM |\s*image: [\w./-]+:|\s*tag: |\s*spark.kubernetes.container.image |\s+image: hardpack  ")
    files = "container/Containerfile", "compose/compose.yaml", "kubernetes/airflow-values.yaml", "kubernetes/spark.yaml"
    lines = [
        (file, line, before)
        for file in files
        for before, line in itertools.pairwise((INFRA / file).read_text().splitlines())
        if named.match(line)
    ]
    assert len(lines) >= 6
    for file, line, before in lines:
        assert "@sha256:" in line or "in by digest" in f"{before} {line}", (file, line)
    assert "by digest" in (ROOT / "docs" / "production.md").read_text()


def test_who_runs_the_image_cannot_change_its_code():
    text = (INFRA / "container" / "Containerfile").read_text().replace("\\\n", " ")
    assert "--chown" not in text
    assert "chown" not in text
    owned = re.findall(r"install -d -o airflow [^&\n]*", text)
    folders = {word for line in owned for word in line.split() if word.startswith("/")}
    written = ("adopted", "data_docs", "looks", "plans", "reports", "results", "validations")
    assert folders == {"/opt/airflow", "/opt/airflow/passwords", *(f"/var/lib/hardpack/{name}" for name in written)}
    assert re.search(r"^USER 50000$", text, re.MULTILINE)


def test_no_password_has_a_default():
    text = (INFRA / "compose" / "compose.yaml").read_text()
    assert re.findall(r"\$\{(?!\w+:\?\})[^}]*\}", text) == []
    lines = [line for line in text.splitlines() if re.search(r"(PASSWORD|SECRET|FERNET_KEY)\w*:", line)]
    assert len(lines) >= 7
    assert all("${" in line or "PASSWORDS_FILE" in line for line in lines)


def test_the_policy_asks_for_no_more_than_tables_need():
    policy = json.loads((INFRA / "aws" / "policy.json").read_text())
    for statement in policy["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        assert statement["Resource"] != "*"


def test_airflows_parts_read_each_others_logs_and_the_charts_probes_find_the_image():
    """One secret signs what the API server asks the others for; the chart runs /entrypoint in its pods."""
    compose = yaml.safe_load((INFRA / "compose" / "compose.yaml").read_text())
    assert compose["x-airflow"]["environment"]["AIRFLOW__API__SECRET_KEY"] == "${AIRFLOW_SECRET_KEY:?}"
    assert "ln -s /opt/entrypoint.sh /entrypoint" in (INFRA / "container" / "Containerfile").read_text()
    values = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())
    for part in ("scheduler", "triggerer", "dagProcessor"):
        assert values[part]["logGroomerSidecar"] == {"enabled": False}, "its script is in Airflow's own image alone"
    assert "airflow pools set hardpack 1" in values["migrateDatabaseJob"]["args"][-1]

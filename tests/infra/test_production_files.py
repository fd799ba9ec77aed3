"""What a production install takes, through the strictest validators that come from a registry; none of it runs here."""

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
    (shellcheck, INFRA / "bin" / "spark3-submit", '"$@"', "$@"),
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
    table = (ROOT / "README.md").read_text().partition("| `[hardpack]` |")[2].partition("\n\n")[0]
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
    named = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())["executor"]
    lock = (INFRA / "container" / "requirements.lock").read_text()
    assert re.search(rf"^{homes[named]}==", lock, re.MULTILINE)


def test_executors_can_call_the_driver_back():
    values = yaml.safe_load((INFRA / "kubernetes" / "airflow-values.yaml").read_text())
    (name,) = yaml.safe_load(values["extraEnv"])
    assert name == {"name": "SPARK_LOCAL_HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def test_no_password_has_a_default():
    text = (INFRA / "compose" / "compose.yaml").read_text()
    assert re.findall(r"\$\{(?!\w+:\?\})[^}]*\}", text) == []
    lines = [line for line in text.splitlines() if re.search(r"(PASSWORD|SECRET|FERNET_KEY)\w*:", line)]
    assert len(lines) >= 6
    assert all("${" in line or "PASSWORDS_FILE" in line for line in lines)


def test_the_policy_asks_for_no_more_than_tables_need():
    policy = json.loads((INFRA / "aws" / "policy.json").read_text())
    for statement in policy["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        assert statement["Resource"] != "*"

"""No credential is printed: a list of the forms in which catalogs, storages and libraries write them."""

import json
import subprocess
import sys
import time

import pytest
from hardpack.table import redaction
from hardpack.table.redaction import redacted, remember_secrets, without_secrets

HUSH = "hU5h+w0rd/9=x"
KEY = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4=="
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"

BY_FORM = [
    (f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY};EndpointSuffix=core.windows.net", KEY),
    (f"BlobEndpoint=https://acc.blob/;SharedAccessSignature=sv=2024&sig={KEY}", KEY),
    ("https://acc.blob/c/f?sv=2024-01&sp=r&sig=s1GnAtUr3%3D&se=2030", "s1GnAtUr3"),
    ("GET https://b.s3/k?X-Amz-Credential=AKIDEX%2F2026&X-Amz-Signature=0badc0de failed", "0badc0de"),
    ("GET https://b.s3/k?X-Amz-Security-Token=FwoGZXIvYXdz&x=1", "FwoGZXIvYXdz"),
    ("postgresql+psycopg2://ann:p%40ss@db:5432/x", "p%40ss"),
    ("postgresql://ann:p@ss@db/x", "p@ss"),
    ("postgresql://ann:p/ss@db/x", "p/ss"),
    ("could not connect to jdbc:postgresql://db/x?user=ann&password=s3same", "s3same"),
    ("jdbc:sqlserver://db;user=ann;password=s3same;encrypt=true", "s3same"),
    ("connection to host=db user=ann password='op en s3same' failed", "s3same"),
    ("https://ghp0123456789abcdefgh@git.host/x", "ghp0123456789abcdefgh"),
    ("https://host/cb?access_token=s3same&state=1", "s3same"),
    ("https://host/cb?token%3Ds3same", "s3same"),
    ("Authorization: Bearer s3same-t0ken", "s3same-t0ken"),
    ("authorization: Basic YW5uOnMzc2FtZQ==", "YW5uOnMzc2FtZQ=="),
    ("{'Authorization': 'AWS4-HMAC-SHA256 Credential=AK/x, Signature=0badc0de'}", "0badc0de"),
    ("sent 'Bearer s3same-t0ken' and was refused", "s3same-t0ken"),
    ("Cookie: session=s3same; theme=dark", "s3same"),
    ("Set-Cookie: id=s3same; HttpOnly", "s3same"),
    ('{"client_secret": "s3same", "scope": "all"}', "s3same"),
    ("{'auth': {'type': 'basic', 'basic': {'username': 'ann', 'password': 's3same'}}}", "s3same"),
    ("adls.account-key = s3same", "s3same"),
    ("s3.session-token=s3same", "s3same"),
    ("s3.secret-access-key: s3same", "s3same"),
    ("gcs.oauth2.token=ya29.s3same-x", "ya29.s3same-x"),
    (f"not valid: {JWT}", JWT),
    ("hf_abcdefghijklmnopqrstuvwxyz is expired", "hf_abcdefghijklmnopqrstuvwxyz"),
    ("key AKIAIOSFODNN7EXAMPLE is unknown", "AKIAIOSFODNN7EXAMPLE"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEs3same\n-----END RSA PRIVATE KEY-----", "MIIEs3same"),
    ("x-api-key: s3same", "s3same"),
    ("PGPASSWORD=s3same psql", "s3same"),
    ("--conf spark.sql.catalog.lake.credential=id:s3same", "s3same"),
    ("fs.azure.account.key.acc.dfs.core.windows.net=s3same", "s3same"),
    ("trustStorePassphrase: 's3same'", "s3same"),
    ('password="s3same and the message was cut', "s3same"),
    (f"{'a' * 200}.secret=s3same", "s3same"),
]

BY_VALUE = [
    ({"adls.account-key": HUSH}, f"sent {HUSH}"),
    ({"adls.sas-token": f"sv=1&sig={HUSH}"}, f"sent {HUSH}"),
    ({"adls.connection-string": f"AccountName=a;AccountKey={HUSH};"}, f"sent {HUSH}"),
    ({"adls.client-secret": HUSH}, f"sent {HUSH}"),
    ({"s3.secret-access-key": HUSH}, f"sent {HUSH}"),
    ({"client.session-token": HUSH}, f"sent {HUSH}"),
    ({"credential": f"client:{HUSH}"}, f"sent {HUSH} of client"),
    ({"token": HUSH}, f"sent {HUSH}"),
    ({"header.Cookie": HUSH}, f"sent {HUSH}"),
    ({"header.X-Gateway": HUSH}, f"sent {HUSH}"),
    ({"auth": {"type": "basic", "basic": {"username": "ann", "password": HUSH}}}, f"sent {HUSH}"),
    ({"auth": {"type": "oauth2", "oauth2": {"client_secret": HUSH}}}, f"sent {HUSH}"),
    ({"auth": {"type": "custom", "impl": "a.B", "custom": {"word": HUSH}}}, f"sent {HUSH}"),
    ({"uri": "postgresql://ann:hU5h%2Bw0rd%2F9%3Dx@db/x"}, f"no login ann with {HUSH}"),
    ({"uri": "postgresql://ann:hU5h%2bw0rd%2F9%3Dx@db/x"}, "no login ann with hU5h%2Bw0rd%2F9%3Dx"),
    ({"uri": f"postgresql://ann@db/x?password={HUSH}"}, f"no login ann with {HUSH}"),
    ({"token": HUSH}, "sent hU5h%2Bw0rd/9%3Dx and hU5h%2Bw0rd%2F9%3Dx"),
    ({"token": "a\nb\tc'"}, "sent " + repr("a\nb\tc'")[1:-1]),
    ({"token": "a\nb/ü"}, "sent " + json.dumps("a\nb/ü")[1:-1]),
]


@pytest.mark.parametrize(("text", "secret"), BY_FORM)
def test_what_looks_like_a_credential_is_struck_out_though_nobody_configured_it(text, secret):
    assert secret in text
    assert secret not in redacted(text)
    assert "***" in redacted(text)


@pytest.mark.parametrize(("properties", "text"), BY_VALUE)
def test_a_configured_credential_is_struck_out_wherever_it_stands(properties, text):
    said = without_secrets(text, properties)
    for form in (HUSH, "hU5h%2Bw0rd/9%3Dx", "hU5h%2Bw0rd%2F9%3Dx", "a\nb", "a\\nb"):
        assert form not in said
    assert "***" in said


def test_catalogs_opened_with_properties_of_their_own_are_known_too(monkeypatch):
    monkeypatch.setattr(redaction, "_known", {})
    assert "mumble" in redacted("sent mumble")
    remember_secrets({"s3.secret-access-key": "mumble"})
    assert redacted("sent mumble") == "sent ***"
    remember_secrets({"auth": {"custom": {f"password{n}": f"w{n:05}" for n in range(2000)}}})
    assert len(redaction._known) == redaction._MOST_KNOWN


PARTS = ["a", "://a:", 'password="', "token ", "eyJ.", "://a@", "-----BEGIN PRIVATE KEY-----", "%", "ey", "cookie:"]


@pytest.mark.parametrize("part", PARTS)
def test_a_long_message_is_no_burden(part):
    started = time.monotonic()
    redacted(part * (1_000_000 // len(part)))
    assert time.monotonic() - started < 10


def test_what_is_said_of_tables_and_settings_stays_readable():
    for text in (
        "db.t: column 'key' is missing; set hardpack.column.key=NAME.",
        "db.t: null.keys=drop is wanted, as 561 rows have no key.",
        "s3://lake/warehouse/db/t/data/partition=3/00000-0-x.parquet is missing",
        "http://catalog:8181/v1 did not answer (ConnectTimeout); try again.",
        'FATAL: password authentication failed for user "ann"',
    ):
        assert redacted(text) == text


def test_the_errors_of_the_command_line_are_struck_out():
    code = (
        "import hardpack.cli.main as c\n"
        "def fail():\n"
        "    raise RuntimeError('GET https://ann:s3same@host/x?sig=0badc0de Authorization: Bearer s3same-t0k')\n"
        "c.app = fail\nc.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "s3same" not in done.stdout + done.stderr
    assert "0badc0de" not in done.stdout + done.stderr

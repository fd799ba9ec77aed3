"""Whatever others raise becomes one sentence with an exit code."""

import logging
import re

import pytest
from botocore.exceptions import EndpointConnectionError
from hardpack.cli.log_output import Redacting
from hardpack.errors import BadInput, Conflict, Unavailable, Unforeseen
from hardpack.failures import as_hardpack_error, not_measured, of_table

TASK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "files.py", line 1, in _sound
hardpack.errors.{kind}: db.t: data file s3://lake/x is {what}; restore it.
"""


class Java:
    """As py4j shows a Java exception."""

    def __init__(self, name, message):
        self.name, self.message = name, message

    def getClass(self):  # Java's
        return self

    def getName(self):  # Java's
        return self.name

    def getMessage(self):  # Java's
        return self.message


class JavaRaised(Exception):
    """As py4j's own error."""

    def __init__(self, name, message):
        super().__init__(f"An error occurred while calling o1.x.\n: {name}: {message}\n\tat x.y(Z.java:1)")
        self.java_exception = Java(name, message)


def test_an_error_of_ours_stays_what_it_is():
    ours = Conflict("db.t: the table has moved on.")
    assert as_hardpack_error(ours) is ours
    assert of_table("db.t", ours) == "db.t: the table has moved on."


@pytest.mark.parametrize(
    ("kind", "what", "expected"), [("BadInput", "damaged", BadInput), ("Unavailable", "away", Unavailable)]
)
def test_an_error_of_ours_in_a_task_comes_back_as_itself(kind, what, expected):
    found = as_hardpack_error(RuntimeError(TASK.format(kind=kind, what=what)))
    assert type(found) is expected
    assert str(found) == f"db.t: data file s3://lake/x is {what}; restore it."


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("peer"),
        EndpointConnectionError(endpoint_url="http://s"),
        JavaRaised("software.amazon.awssdk.core.exception.SdkClientException", "Unable to execute HTTP request"),
        JavaRaised("org.apache.iceberg.exceptions.ServiceFailureException", "503"),
        JavaRaised("java.lang.RuntimeException", "java.net.ConnectException: Connection refused"),
        # a reader whose bytes did not come
        JavaRaised("org.apache.parquet.io.ParquetDecodingException", "\nCaused by: java.net.SocketTimeoutException"),
        JavaRaised("java.io.EOFException", "Reached the end of stream\nCaused by: java.net.SocketException: reset"),
        JavaRaised("org.apache.hadoop.hdfs.BlockMissingException", "Could not obtain block"),
        JavaRaised("com.google.cloud.storage.StorageException", "503 Service Unavailable"),
        JavaRaised("com.azure.storage.blob.models.BlobStorageException", "Status code 503"),
        RuntimeError("Traceback\nOSError: When completing upload: AWS Error NETWORK_CONNECTION during PutObject"),
        RuntimeError("Traceback\nOSError: google::cloud::Status(UNAVAILABLE: Retry policy exhausted)"),
    ],
)
def test_a_service_that_does_not_answer_may_be_tried_again(error):
    found = as_hardpack_error(error)
    assert isinstance(found, Unavailable)
    assert found.exit_code == 5
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        JavaRaised("org.apache.spark.SparkException", "Job aborted: java.io.IOException: No space left on device"),
    ],
)
def test_a_full_disk_is_named_and_may_be_tried_again(error):
    found = as_hardpack_error(error)
    assert isinstance(found, Unavailable)
    assert str(found).startswith("a disk is full (")
    assert "spark.local.dir" in str(found)


def test_a_missing_file_is_bad_input():
    found = as_hardpack_error(FileNotFoundError("s3://lake/metadata/m0.avro"))
    assert isinstance(found, BadInput)
    assert "m0.avro" in str(found)


@pytest.mark.parametrize(
    "message", ["/lake/t/data/a.parquet (Too many open files)", "/tmp/blockmgr-1/0c/shuffle_0_1_0.index (No such file)"]
)
def test_a_file_that_java_does_not_find_is_not_always_lost(message):
    """Nobody should restore a table because a machine ran out of file handles or lost an executor's disk."""
    of = "org.apache.spark.SparkException", "x\nCaused by: java.io.FileNotFoundException: "
    assert isinstance(as_hardpack_error(JavaRaised(of[0], of[1] + message)), Unforeseen)
    assert isinstance(as_hardpack_error(JavaRaised(of[0], of[1] + "File a does not exist")), BadInput)


@pytest.mark.parametrize("error", [KeyError("x"), ValueError(), JavaRaised("java.lang.IllegalStateException", "a\nb")])
def test_what_nobody_foresaw_is_one_sentence_too(error):
    found = as_hardpack_error(error)
    assert isinstance(found, Unforeseen)
    assert found.exit_code == 1
    assert "\n" not in str(found)
    assert "--verbose" in str(found)


def test_no_credential_is_said_or_logged(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__ANY__S3__SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__URI", "postgresql+psycopg2://ann:pass-word@db/x")
    error = RuntimeError("hush-hush does not fit, nor does ann:pass-word@db")
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "sent %s", ("hush-hush",), (RuntimeError, error, None))
    for told in (str(as_hardpack_error(error)), of_table("t", error), Redacting("%(message)s").format(record)):
        assert "***" in told
        assert "hush" not in told
        assert "pass-word" not in told


@pytest.mark.parametrize(
    ("trace", "kind", "words"),
    [
        ("\n  An exception was thrown\n  x", Unavailable, r"t: the guarantees .*measured \(An exception was thrown\)"),
        (
            "o9.collect.\n: x\nCaused by: java.io.FileNotFoundException: File s3://x is not.",
            BadInput,
            r"measured, a file is missing \(java\.io\.FileNotFoundException: File s3://x is not\); restore",
        ),
        ("RuntimeException: x is not a Parquet file", BadInput, r"t: .*measured, a file is damaged .*restore"),
        ("java.net.ConnectException: refused", Unavailable, r"t: .*measured, a service did not answer"),
    ],
)
def test_why_nothing_could_be_measured(trace, kind, words):
    told = not_measured("t", trace)
    assert type(told) is kind
    assert re.search(words, str(told))


def test_what_java_said_is_told_and_not_which_call_it_was():
    trace = str(JavaRaised("org.apache.spark.SparkException", "Job aborted: no such type"))
    said = str(not_measured("db.t", trace))
    assert "(org.apache.spark.SparkException: Job aborted: no such type); run it again" in said
    assert "o1.x" not in said

"""Turns the errors of libraries and services into one sentence of hardpack's own with an exit code."""

from __future__ import annotations

import re

from hardpack import errors
from hardpack.errors import BadInput, HardpackError, Unavailable, Unforeseen

IN_TASK = re.compile(r"^hardpack\.errors\.(?P<kind>\w+): (?P<message>.*)$", re.MULTILINE)
"""An error of hardpack's that a Spark task raised, as it stands in the trace that Spark hands on."""
AWAY = re.compile(
    r"ConnectException|ConnectionError|ConnectError|SdkClientException|ServiceFailureException|UncheckedSQLException"
    r"|ServiceUnavailable|SocketTimeout|SocketException|ConnectTimeout|NoRouteToHost|UnknownHost|NoHttpResponse"
    r"|PSQLException|RESTException|RetryableException|RetriableException|StandbyException|BlockMissingException"
    r"|com\.google\.cloud\.storage\.StorageException|com\.azure\.[\w.]*Exception|SSLException|SSLHandshake"
    r"|OSError: .*(AWS Error|google::cloud::Status|Azure Error|HDFS)"
)
"""Names in a trace that mean a service did not answer, as far as they can be told from a user's mistake."""
MISSING = re.compile(
    r"^(?!.*(Too many open files|Permission denied|blockmgr-|/shuffle_|/temp_shuffle_|/temp_local_))"
    r".*(FileNotFoundException|NoSuchKeyException|NotFoundException: (File|Location) does not exist).*$",
    re.MULTILINE,
)
"""The line of a trace that names a file which Spark's readers do not find, as HadoopFileIO and S3FileIO say it.

It does not match files that may not be opened, nor Spark's own files, though Java has the same exception for them."""
DAMAGED = re.compile(r"^.*(is not a Parquet file|ParquetDecodingException|Reached the end of stream).*$", re.MULTILINE)
"""The line of a trace that tells of a file which Spark's readers cannot decode."""
FULL = "No space left on device"
"""The operating system's text for a full disk, the same in Python's and Java's errors."""


def as_hardpack_error(error: Exception) -> HardpackError:
    """Turns any exception into an error of hardpack's, which says what failed and what to do.

    An error that hardpack raised in a Spark task comes back as itself. A service that did not answer and a full disk
    become `Unavailable`, a missing or damaged file `BadInput`. Anything else becomes `Unforeseen`, exit code 1.
    """
    if isinstance(error, HardpackError):
        return error
    text = str(error)
    if in_task := IN_TASK.search(text):
        kind: type[HardpackError] = getattr(errors, in_task["kind"], HardpackError)
        return kind(in_task["message"])
    from hardpack.table.catalog import OUTAGES
    from hardpack.table.redaction import redacted

    kind_name, message = java_error(error)
    cause = redacted(f"{kind_name.rpartition('.')[2]}: {message}".rstrip(": .") if message else kind_name)
    if FULL in text:
        return Unavailable(
            f"a disk is full ({cause}); free some space where the table, Spark's spark.local.dir and HARDPACK_HOME "
            "lie, then try again."
        )
    away = isinstance(error, OUTAGES) or AWAY.search(f"{kind_name} {text}")
    for what, pattern in (("missing", MISSING), ("damaged", DAMAGED)):
        if away and pattern is DAMAGED:
            # the decoder failed because the storage did not send the bytes, so the file need not be damaged
            continue
        if (line := pattern.search(text)) or (pattern is MISSING and isinstance(error, FileNotFoundError)):
            which = redacted(line[0].strip().removeprefix("Caused by: ").rstrip(".")) if line else cause
            return BadInput(f"a file is {what} ({which}); restore it, or roll the table back to a snapshot without it.")
    if away:
        return Unavailable(f"a service did not answer ({cause}); see that catalog and storage are up, then try again.")
    return Unforeseen(f"{cause}; nobody foresaw this, so run it with --verbose and report what it prints.")


def not_measured(table: str, trace: str) -> HardpackError:
    """Returns the error for guarantees of a table that could not be measured.

    Args:
        table: its name.
        trace: text of the error that was raised, with its trace.
    """
    error = as_hardpack_error(RuntimeError(trace))
    if isinstance(error, Unforeseen):
        return Unavailable(f"{table}: the guarantees could not be measured ({_first(trace)}); run it again.")
    return type(error)(f"{table}: the guarantees could not be measured, {error}")


def _first(text: str) -> str:
    """Returns the first line that tells something: in a text of py4j's it is the second, which Java wrote."""
    first, _, rest = text.strip().partition("\n")
    second = rest.strip().removeprefix(":").strip()
    return _first(second) if second and first.startswith("An error occurred while calling ") else first


def of_table(name: str, error: Exception) -> str:
    """Returns the sentence that reports an error which ended the work on a table."""
    return str(error) if isinstance(error, HardpackError) else f"{name}: {as_hardpack_error(error)}"


def java_error(error: Exception) -> tuple[str, str]:
    """Returns class name and first line of the message of Java's error, else of the Python error itself."""
    # py4j's error is known by its attribute, so that a process without a JVM need not import py4j
    if (java := getattr(error, "java_exception", None)) is not None:
        return str(java.getClass().getName()), _first(str(java.getMessage()))
    return type(error).__name__, _first(str(error))

"""Plans, reports and pages of Data Docs on S3, when `[hardpack] reports_s3` names a place there."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from hardpack_airflow.config import setting

log = logging.getLogger(__name__)
FEW, MANY = 2, 5
"""Tries of a request: `FEW` when somebody waits for it or it can be done without, `MANY` when a run needs it."""
NOT_THERE = ("404", "NoSuchKey")


def pages_of(report: dict[str, Any]) -> list[Path]:
    """Returns the pages of Data Docs that a result of a verb names."""
    pages = report.get("data_docs") or ()
    return [Path(page) for page in ([pages] if isinstance(pages, str) else pages)]


def upload(files: Iterable[Path], tries: int = MANY) -> list[str]:
    """Copies files to S3, each at its path within the home; does nothing when no place is set.

    Credentials, region and endpoint are those that boto3 finds by itself (environment, profile, role).

    Args:
        files: inside the home.
        tries: of each request.

    Returns:
        The files' addresses on S3.

    Raises:
        ValueError: the setting is not an address on S3.
        boto3.exceptions.S3UploadFailedError: S3 refused.
    """
    place = _place()
    if not place:
        return []
    client, addresses = _client(tries), []
    for file in files:
        bucket, key = place[0], _key(place[1], file)
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        client.upload_file(str(file), bucket, key, ExtraArgs={"ContentType": kind})
        addresses.append(f"s3://{bucket}/{key}")
    return addresses


def download(file: Path) -> bool:
    """Brings a file of the home back from S3, where another machine has copied it.

    Returns:
        Whether the file is here now; False when no place is set, or S3 does not have it.

    Raises:
        ValueError: the setting is not an address on S3.
        Unavailable: S3 refuses, or does not answer.
    """
    place = _place()
    if not place:
        return False
    from botocore.exceptions import BotoCoreError, ClientError

    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        _client(MANY).download_file(place[0], _key(place[1], file), str(file))
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in NOT_THERE:
            return False
        raise _unavailable(error) from error
    except BotoCoreError as error:
        raise _unavailable(error) from error
    return True


def read(name: str) -> bytes | None:
    """Returns a file of the home from S3; None when no place is set, or it is not there.

    Args:
        name: its path within the home.

    Raises:
        Unavailable: S3 refuses, or does not answer.
    """
    place = _place()
    if not place:
        return None
    from botocore.exceptions import BotoCoreError, ClientError

    client = _client(FEW)
    try:
        answer: bytes = client.get_object(Bucket=place[0], Key=_joined(place[1], name))["Body"].read()
    except client.exceptions.NoSuchKey:
        return None
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error
    return answer


def uploaded(beginning: str) -> dict[str, float]:
    """Returns when each file of the home that S3 has was copied, in seconds since the epoch, by path within the home.

    Args:
        beginning: how the paths of the files begin.

    Raises:
        Unavailable: S3 refuses, or does not answer.
    """
    return {name: one["LastModified"].timestamp() for name, one in _listed(beginning, "Contents", "Key")}


def folders(beginning: str) -> list[str]:
    """Returns the folders of the home that S3 has inside one, as paths within the home that end with `/`.

    Args:
        beginning: that folder's path within the home, which ends with `/`.

    Raises:
        Unavailable: S3 refuses, or does not answer.
    """
    return [name for name, _ in _listed(beginning, "CommonPrefixes", "Prefix", Delimiter="/")]


def _listed(beginning: str, what: str, name: str, **options: str) -> list[tuple[str, Any]]:
    """Returns each entry that S3 lists: its name within the home, and all that S3 says of it.

    Empty when no place is set.

    Args:
        beginning: how the names begin.
        what: the list in S3's answer, `Contents` or `CommonPrefixes`.
        name: the field of an entry that has its name on S3.
        options: further arguments of `list_objects_v2`.

    Raises:
        Unavailable: S3 refuses, or does not answer.
    """
    place = _place()
    if not place:
        return []
    from botocore.exceptions import BotoCoreError, ClientError

    inside = _joined(place[1], "")
    pages = (
        _client(FEW).get_paginator("list_objects_v2").paginate(Bucket=place[0], Prefix=inside + beginning, **options)
    )
    try:
        return [(one[name].removeprefix(inside), one) for page in pages for one in page.get(what, ())]
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error


@cache
def _client(tries: int) -> Any:
    """Returns a client of S3, which many threads may share."""
    import boto3
    from botocore.config import Config

    # two threads may be here at once, and must not make clients of one session together
    return boto3.session.Session().client(
        "s3", config=Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": tries})
    )


def _unavailable(error: Exception) -> Exception:
    from hardpack.errors import Unavailable

    return Unavailable(f"[hardpack] reports_s3 cannot be read ({type(error).__name__}: {error}); mend its access.")


def _place() -> tuple[str, str] | None:
    """Returns bucket and prefix; None when no place is set, so that nothing is copied."""
    place = setting("reports_s3")
    if not place:
        return None
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://") or not bucket:
        raise ValueError(f"[hardpack] reports_s3 is {place!r}, expected s3://BUCKET or s3://BUCKET/PREFIX.")
    return bucket, prefix.strip("/")


def _key(prefix: str, file: Path) -> str:
    from hardpack.home import default_home

    return _joined(prefix, file.resolve().relative_to(default_home().resolve()).as_posix())


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def upload_or_warn(files: Iterable[Path], tries: int = FEW) -> None:
    """Copies files to S3. A file that cannot be copied is only warned of: the work is done, and is not repeated.

    Args:
        files: inside the home.
        tries: of each request.
    """
    for file in files:
        try:
            upload([file], tries)
        except Exception as error:  # whatever it is, the work is done
            log.warning("%s was not copied: %s: %s", file.name, type(error).__name__, error)
            if not isinstance(error, (OSError, ValueError)):
                # S3 would not answer for the others either, and the task holds its slot of the pool meanwhile
                return

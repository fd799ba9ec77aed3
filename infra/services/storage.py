"""S3-compatible storage: versitygw over a folder, built once from the Go module proxy."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.services.process import Service

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
REGION = "us-east-1"


class Storage(Service):
    """One S3 server, whose buckets are folders below `folder`/buckets.

    Args:
        folder: of its own; its file system must keep extended attributes.
        programs: folder for the program.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        super().__init__(folder)
        buckets = folder / "buckets"
        buckets.mkdir(exist_ok=True)
        self.access_key, self.secret_key = f"hardpack-{secrets.token_hex(4)}", secrets.token_urlsafe(24)
        self.env = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        self.command = [str(build(programs)), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", str(buckets)]

    @property
    def endpoint(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """Properties of this storage, as pyiceberg and Iceberg's S3FileIO take them."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.path-style-access": "true",
        }

    @property
    def client(self) -> Any:
        """A boto3 client of this storage that tries each request once."""
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name=REGION, aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key, config=Config(connect_timeout=2, retries={"max_attempts": 0}),
        )  # fmt: skip

    def is_up(self) -> bool:
        """Returns whether the server lists its buckets."""
        try:
            self.client.list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


def build(folder: Path) -> Path:
    """Returns the server's program; compiles it in about two minutes when it is not there.

    Raises:
        RuntimeError: Go is missing or cannot fetch or compile it.
    """
    program = folder / f"versitygw-{VERSION}"
    if program.exists():
        return program
    if not shutil.which("go"):
        raise RuntimeError("Go is missing, which builds the S3 server of the tests; install it (Debian: golang-go).")
    folder.mkdir(parents=True, exist_ok=True)
    # compiled in a folder of its own, so that a half-made file is never taken for the program
    scratch = folder / "building"
    done = subprocess.run(
        ["go", "install", f"{MODULE}@{VERSION}"], env={**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0"},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{MODULE}@{VERSION} cannot be built ({' '.join(done.stderr.splitlines()[-2:])}).")
    (scratch / "versitygw").replace(program)
    scratch.rmdir()
    return program

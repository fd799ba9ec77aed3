"""AWS Glue, played by moto's server."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.services.process import Service, answers
from infra.services.storage import REGION, Storage


class Glue(Service):
    """A Glue catalog in memory; a client takes credentials from its environment, as for AWS.

    Args:
        folder: of its own.
        storage: where the warehouse lies.
        warehouse: `s3://bucket/prefix`.
    """

    def __init__(self, folder: Path, storage: Storage, warehouse: str) -> None:
        super().__init__(folder)
        self.warehouse, self.storage = warehouse, storage
        self.command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    @property
    def properties(self) -> dict[str, str]:
        """Properties by which pyiceberg opens this Glue catalog; those of its storage are to be added."""
        return {
            "type": "glue",
            "warehouse": self.warehouse,
            "glue.endpoint": f"http://127.0.0.1:{self.port}",
            "glue.region": REGION,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the environment that AWS's own clients read."""
        keys = {"AWS_ACCESS_KEY_ID": self.storage.access_key, "AWS_SECRET_ACCESS_KEY": self.storage.secret_key}
        return {**keys, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    def is_up(self) -> bool:
        """Returns whether the server listens on its port."""
        return answers(self.port)

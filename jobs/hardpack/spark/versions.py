"""The versions of Spark that hardpack works with, and the Iceberg runtime that was tested with each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from hardpack.errors import BadInput


@dataclass(frozen=True)
class Fit:
    """A minor version of Spark, and the versions of Scala and Iceberg that were tested with it."""

    spark: str
    scala: str
    iceberg: str
    runtime_sha256: str

    @property
    def runtime(self) -> str:
        """Name of the artifact of Iceberg's runtime."""
        return f"iceberg-spark-runtime-{self.spark}_{self.scala}"

    def check(self, what: str, actual: str, tested: str) -> None:
        """Checks that an actual version begins with the tested one.

        Raises:
            BadInput: it does not.
        """
        if not _begins(actual, tested):
            raise BadInput(
                f"this is {what} {actual}, but hardpack works with Spark {self.spark}, Scala {self.scala} and Iceberg "
                f"{self.iceberg} together only; use the jar {self.runtime}-{self.iceberg}.jar."
            )

    def check_iceberg(self, actual: str) -> None:
        """Checks that Iceberg is of the tested minor version; see `check`."""
        self.check("Iceberg", actual, self.iceberg.rpartition(".")[0])


TESTED = (
    Fit("4.1", "2.13", "1.12.0", "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"),
    Fit("4.0", "2.13", "1.11.0", "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"),
    Fit("3.5", "2.12", "1.12.0", "8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc"),
)
"""The tested versions, newest Spark first."""


def fit_of(spark: str) -> Fit:
    """Returns the tested versions for a version of Spark.

    Raises:
        BadInput: hardpack was not tested with that version of Spark.
    """
    for fit in TESTED:
        if _begins(spark, fit.spark):
            return fit
    known = ", ".join(fit.spark for fit in reversed(TESTED))
    raise BadInput(f"this is Spark {spark}, but hardpack works with Spark {known} only; install one of these.")


def installed_spark() -> str:
    """Returns the version of the package pyspark, empty where Spark comes from elsewhere."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def _begins(actual: str, tested: str) -> bool:
    return f"{actual}.".startswith(f"{tested}.")

"""Maintenance of a table: spark-submit maintain.py --plan FILE... [--result FILE]; a file has its name and the time."""

from hardpack.cli import short_life
from hardpack.cli.spark_submit import read_table_request, run_job

if __name__ == "__main__":
    short_life.run(
        lambda: run_job(
            lambda hp, request: hp.maintain(request.table, request.now, request.dry_run), __doc__, read_table_request
        )
    )

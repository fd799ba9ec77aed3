"""hardpack as the world calls it: the public interface, its clock and its tables by the JVM the world's."""

from __future__ import annotations

import weakref
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from hardpack.api import Hardpack
from hardpack.compaction.plan import Plan
from hardpack.operations.status import MIXED
from hardpack.policy.file import policies_in_force
from hardpack.rules.late_rows import waits_for_trust
from hardpack.table.catalog import open_table
from hardpack.table.history import trusted_states
from hardpack.table.log_views import table_logs

from tests.histories.jvm_table import SimJvmTable
from tests.histories.oracle import Said


@cache
def _policies() -> Any:
    return policies_in_force()


class Telling(Hardpack):
    """The library, which tells the oracle what it knows."""

    world: Any

    def plan_of(self, *args: Any, **told: Any) -> Plan:
        """A plan, with commits as small as the history says."""
        return super().plan_of(*args, **told).model_copy(update={"unit_bytes": self.world.unit_bytes})

    def said(self, name: str) -> dict[int, Said]:
        """What status and state tell of a table, as plain data."""
        table = open_table(self.catalog, name)
        states = trusted_states(table)
        found, logs = {}, self.status_of(table, self.world.now)
        waiting = any(status.partition == MIXED for status in logs)
        for status in logs:
            if status.partition == MIXED:
                # of files with rows of several logs
                continue
            state = states.get(str(status.partition))
            found[int(status.partition)] = Said(
                checkpoint=status.checkpoint,
                first_dirty=status.first_dirty,
                due=status.due,
                reason=status.reason,
                expired_to=state.expired_to if state else -1,
                uncleanable=status.uncleanable,
                held=status.held,
                stuck=status.reason.startswith("stuck"),
                horizons=[tuple(h) for h in state.horizons] if state else [],
                waiting=waiting,
            )
        return found

    def waiting_for_trust(self, name: str) -> set[int]:
        """The logs with rows behind which tombstones are gone, whatever else keeps them from being cleaned."""
        session = self.session(name)
        views = table_logs(session.table, session.settings).views
        return {int(view.name) for view in views if waits_for_trust(view, session.settings)}


def home_of(world: Any) -> Path:
    """A home of hardpack's that a world shares with no other, and that goes with it."""
    folder = Path(mkdtemp(prefix="hardpack-history-"))
    weakref.finalize(world, rmtree, folder, ignore_errors=True)
    return folder


class SimHardpack(Telling):
    """The library over tables in memory."""

    def __init__(self, world: Any) -> None:
        super().__init__(world.lake, None, world.home, None, _policies())
        self.world = world
        self.clock = lambda: world.now

    @property
    def spark(self) -> Any:
        raise AssertionError("no pass in memory asks for Spark")

    def jvm_table(self, name: str, table: Any = None) -> Any:
        open_table(self.catalog, name)
        return SimJvmTable(self.world, name)

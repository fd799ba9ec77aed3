"""Policies: which tables are cleaned together, when, in which order and by which settings.

A table belongs to the first policy that names it. Its own properties win over the policy's settings, except for those
that the policy locks; the policy's settings win over the defaults. A policy with an error keeps its tables, so that no
other policy cleans them by rules that were not meant for them. Its runs are refused until it is mended; other policies
work. Verbs are refused too, unless the error is only of the policy's runs: a wrong schedule keeps nobody from a pause.

Imports neither Airflow nor a catalog, so that DAGs are made of policies fast.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from glob import has_magic
from typing import Annotated, Any, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hardpack.errors import BadInput
from hardpack.policy.cron import wrong_of_cron
from hardpack.rules.broker_settings import as_topic_settings, named_by_broker
from hardpack.rules.reader_source import ReaderSource
from hardpack.rules.settings import Order, PolicySettings, Settings, dotted, read_settings
from hardpack.rules.times import DAY_MS, HOUR_MS, LONG_MAX

log = logging.getLogger(__name__)
UNIT_BYTES = 100 * 1024**3
"""Most bytes of a unit where no policy sets another number."""
LONGEST_MS = 100 * 365 * DAY_MS
"""Greatest time, ms, that a policy may set for a run or a task; no timer of Airflow's is given more."""
ON_OR_OFF = {dotted(name) for name, field in Settings.model_fields.items() if "off" in get_args(field.annotation)}
DEADLINE = "deadline"
"""Kind of the error of a policy that has only one of `deadline.ms` and `on.deadline`."""
OF_SETTINGS = {"settings", "locked", "readers"}
"""Fields that decide how tables are cleaned, in runs and by verbs alike; an unknown field may mean one of them."""
MAY_BE_NULL = ("tombstone", "key.absent")
"""Settings that have `null` among their values."""
YAML_VALUE: dict[str, Any] = {
    "type": ["string", "number", "boolean", "array"], "items": {"type": "string"}, "minItems": 1
}  # fmt: skip
NULL_TOO: dict[str, Any] = {"type": [*YAML_VALUE["type"], "null"]}
Glob = Annotated[str, Field(min_length=1)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]


def _text(name: str, value: object) -> str:
    """Returns a setting's value as a table property has it; YAML reads `off` as a truth value and `null` as None.

    Raises:
        ValueError: it is neither a single value nor a list of texts.
    """
    if isinstance(value, bool):
        words = ("off", "on") if name in ON_OR_OFF else ("false", "true")
        return words[value]
    if value is None and name in MAY_BE_NULL:
        return "null"
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if value is None or isinstance(value, list | Mapping):
        raise ValueError(f"{name} is {value!r}, expected a value, or a list of names; give it one, or leave it out")
    return str(value)


class Policy(BaseModel):
    """One policy, and one DAG. Sizes are bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=dotted)

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="names the DAG: hardpack_NAME")
    tables: tuple[Glob, ...] = Field(min_length=1, description="tables or globs such as db.*")
    catalog: str = Field(
        "",
        description="where its tables are, as pyiceberg names it; all policies or none name theirs",
    )
    schedule: str = Field("0 * * * *", description="cron; empty: runs by hand only")
    timezone: str = Field("UTC", description="of the schedule, as Europe/Berlin")
    settings: dict[str, str] = Field(
        {},
        description="settings of tables that do not set them themselves, by a topic's names or a broker's",
        json_schema_extra={
            "properties": dict.fromkeys(MAY_BE_NULL, NULL_TOO),
            "additionalProperties": YAML_VALUE,
        },
    )
    locked: bool | tuple[Glob, ...] = Field(
        False,
        description="settings, as names or globs, for which tables' own properties do not count; true for all",
    )
    unit_bytes: int = Field(
        UNIT_BYTES, ge=1, le=LONG_MAX, description="most bytes of one mapped unit of work, and of one commit of a pass"
    )
    units_per_run: int = Field(
        500, ge=1, le=1024, description="most units of one run, the most urgent first; the rest waits for the next run"
    )
    pool: str = Field("hardpack", pattern=r"\S", description="Airflow's pool of which every Spark task takes a slot")
    retries: int = Field(2, ge=0, le=1000, description="further tries of a task that may help")
    retry_delay_ms: int = Field(60_000, ge=0, le=LONGEST_MS, description="time before another try")
    look_timeout_ms: int = Field(600_000, ge=1000, le=LONGEST_MS, description="longest time of a look at the metadata")
    unit_timeout_ms: int = Field(
        6 * HOUR_MS, ge=1000, le=LONGEST_MS, description="longest time of one phase of one unit"
    )
    run_timeout_ms: int = Field(7 * DAY_MS, ge=1000, le=LONGEST_MS, description="longest time of a run")
    spark_conn_id: str = Field("", description="Airflow's Spark connection; empty: as [hardpack] spark_conn_id says")
    driver_memory: str = Field(
        "", pattern=r"^([1-9]\d*[kmgt])?$", description="memory of a Spark driver, as 4g; empty: as [hardpack] says"
    )
    owner: str = Field("hardpack", min_length=1, description="who Airflow's pages name for the DAG")
    tags: tuple[Tag, ...] = Field((), description="of the DAG, beside hardpack and compaction")
    on_failure: str = Field(
        "",
        pattern=r"^([\w.]+:\w+)?$",
        description="what Airflow calls with its context when a run fails, as package.module:function",
    )
    deadline_ms: int = Field(
        0,
        ge=0,
        le=LONGEST_MS,
        description="a run that has not ended so long after it was queued calls on.deadline; 0: none",
    )
    on_deadline: str = Field(
        "",
        pattern=r"^([\w.]+:\w+)?$",
        description="coroutine that the triggerer calls when a run misses its deadline, as package.module:function",
    )
    readers: tuple[ReaderSource, ...] = Field(
        (),
        description="who has to see the deletes of its tables, and who tells how far they are; asked before each look",
    )
    order: Order = Field("filthiest", description="which log goes first: the dirtiest as in Kafka, or the most overdue")
    _problem: str = PrivateAttr("")
    _runs_alone: bool = PrivateAttr(True)

    @property
    def problem(self) -> str:
        """What is wrong with the policy in the file, in words, else empty; the wrong fields have their defaults."""
        return self._problem

    @property
    def of_planning(self) -> str:
        """All that the policy says of how a table is planned, as text that changes when any of it does."""
        planning_fields = {"name", "settings", "locked", "order", "unit_bytes"}
        return f"{self.model_dump_json(include=planning_fields)}{self.problem}"

    def bare(self) -> Policy:
        """Returns the policy with nothing but its name, tables and catalog, which tell what belongs to it."""
        return Policy(name=self.name, tables=self.tables, catalog=self.catalog)

    @property
    def problem_of_settings(self) -> str:
        """The problem, where it leaves open which settings its tables are cleaned by; else empty."""
        return "" if self._runs_alone else self.problem

    def refused(self, problem: str, wrong: Collection[str] = (), **mended: Any) -> Self:
        """Returns the policy with a problem, for which its runs are refused.

        Args:
            problem: in words.
            wrong: the names of the fields that the problem concerns, as the file has them.
            mended: fields of the policy to replace, with their new values.
        """
        policy = self.model_copy(update=mended)
        policy._problem = problem
        known = {dotted(name) for name in Policy.model_fields} - OF_SETTINGS
        policy._runs_alone = self._runs_alone and known.issuperset(wrong)
        return policy

    @field_validator("settings", mode="before")
    @classmethod
    def _as_text(cls, given: object) -> object:
        """Returns settings with YAML's values as table properties have them, and a broker's names as a topic's."""
        if not isinstance(given, Mapping):
            return given
        return as_topic_settings({str(name): _text(str(name), value) for name, value in given.items()})

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, given: object, about: ValidationInfo) -> object:
        if isinstance(given, bool) and cls.model_fields[str(about.field_name)].annotation is int:
            raise ValueError(f"it is {str(given).lower()}, as YAML reads yes, no, on and off; expected a number")
        return given

    @field_validator("name")
    @classmethod
    def _not_taken(cls, name: str) -> str:
        if name in ("maintenance", "quality", "by_hand"):
            raise ValueError(f"hardpack_{name} is a DAG of hardpack's own; give the policy another name")
        return name

    @field_validator("tables")
    @classmethod
    def _stand_in_a_list(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for glob in given:
            if glob != glob.strip():
                raise ValueError(f"{glob!r} begins or ends with a blank, which no name of a table does")
            if "," in re.sub(r"\[.*?\]", "", glob):
                raise ValueError(f"{glob!r} has a comma, which stands between tables; list them apart, or write [,]")
        return given

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, schedule: str) -> str:
        if schedule and (wrong := wrong_of_cron(schedule)):
            raise ValueError(wrong)
        return schedule

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            raise ValueError(f"{name!r} is no time zone, expected one as Europe/Berlin or UTC") from None
        return name

    @field_validator("locked")
    @classmethod
    def _locks_something(cls, given: bool | tuple[str, ...]) -> bool | tuple[str, ...]:
        if isinstance(given, bool):
            return given
        names, locked = [dotted(name) for name in Settings.model_fields], list(given)
        for glob in given:
            # the settings may be given by a broker's names, so that these may be locked too
            by_broker = named_by_broker(glob)
            if not by_broker and not any(fnmatchcase(name, glob) for name in names):
                raise ValueError(f"{glob!r} is no setting and matches none (`hardpack adopt --help` lists all)")
            locked += by_broker
        return tuple(dict.fromkeys(locked))

    @property
    def given(self) -> PolicySettings:
        """The settings of the policy, and which of them its tables may not set themselves."""
        globs = ("*",) if self.locked is True else self.locked or ()
        return PolicySettings(self.settings, globs)

    @model_validator(mode="after")
    def _deadline_tells_somebody(self) -> Self:
        if bool(self.deadline_ms) != bool(self.on_deadline):
            missing = "on.deadline" if self.deadline_ms else "deadline.ms"
            said = f"policy {self.name}: deadline.ms and on.deadline go together, and {missing} is missing"
            raise PydanticCustomError(DEADLINE, "{said}", {"said": said})
        return self

    @field_validator("readers")
    @classmethod
    def _names_differ(cls, given: tuple[ReaderSource, ...]) -> tuple[ReaderSource, ...]:
        of = [(source.table, source.name) for source in given]
        if twice := sorted({one for one in of if of.count(one) > 1}):
            table, name = twice[0]
            raise ValueError(f"reader {name} of {table} is given twice; give each reader of a table a name of its own")
        return given

    @model_validator(mode="after")
    def _readers_read_its_tables(self) -> Self:
        if strange := [source for source in self.readers if not self.names(source.table)]:
            raise ValueError(
                f"reader {strange[0].name} reads {strange[0].table}, which is none of the tables of policy {self.name}"
            )
        return self

    @model_validator(mode="after")
    def _settings_hold(self) -> Self:
        try:
            read_settings(f"policy {self.name}", {}, self.settings)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return self

    def names(self, table: str) -> bool:
        """Returns whether one of the policy's globs is the table's name or matches it."""
        return any(table == glob or fnmatchcase(table, glob) for glob in self.tables)


def _covers(wider: str, glob: str) -> bool:
    """Returns whether another glob, `wider`, surely matches all that a name or glob matches; False in doubt."""
    if glob == wider or not has_magic(glob):
        return glob == wider or fnmatchcase(glob, wider)
    # ? and [...] of `glob` stand for any of several letters, so only a * of `wider` surely matches them
    return not re.search(r"[?\[]", wider) and fnmatchcase(re.sub(r"\[.+?\]|\?", "\0", glob), wider)


class Policies(BaseModel):
    """The file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policies: tuple[Policy, ...] = Field(min_length=1, description="the first that names a table is the table's")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [p.name for p in self.policies]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"two policies are called {twice[0]!r}; give each a name of its own")
        silent = [p.name for p in self.policies if not p.catalog]
        if silent and self.catalogs:
            raise ValueError(
                f"policy {silent[0]!r} names no catalog and another does; let all of them name theirs, or none"
            )
        return self

    @property
    def catalogs(self) -> list[str]:
        """The catalogs that the policies name, each once."""
        return list(dict.fromkeys(p.catalog for p in self.policies if p.catalog))

    def in_catalog(self, name: str) -> Policies:
        """Returns the policies of one catalog; all of them where no policy names a catalog."""
        own = tuple(p for p in self.policies if p.catalog in ("", name))
        if not own:
            log.warning(
                "no policy is for catalog %s, they name %s; its tables go by their own properties and the defaults",
                name, ", ".join(self.catalogs),
            )  # fmt: skip
        return self.model_copy(update={"policies": own})

    def with_own(self, policy: Policy) -> Policies:
        """Returns the policies, and behind them one that was made in code, unless one of the file has its name."""
        if any(one.name == policy.name for one in self.policies):
            return self
        return self.model_copy(update={"policies": (*self.policies, policy)})

    def of(self, table: str) -> Policy | None:
        """Returns the policy of a table, None when none names it."""
        return next((p for p in self.policies if p.names(table)), None)

    def settings(self, table: str) -> Mapping[str, str]:
        """Returns the settings of the table's policy; empty when no policy names the table.

        Raises:
            BadInput: the policy has a problem that concerns its settings.
        """
        policy = self.of(table)
        if policy and policy.problem_of_settings:
            raise BadInput(f"{table}: {policy.problem_of_settings}")
        return policy.given if policy else {}

    def problems(self) -> list[str]:
        """Returns what is wrong in the file, a sentence for each policy with a problem."""
        return [policy.problem for policy in self.policies if policy.problem]

    def strange_readers(self, policy: Policy) -> list[ReaderSource]:
        """Returns those readers of a policy that read a table of another policy."""
        of = self.in_catalog(policy.catalog)
        return [source for source in policy.readers if of.of(source.table) is not policy]

    def doubts(self) -> list[str]:
        """Returns a sentence for each thing in the file that is legal and yet hardly meant.

        These are globs whose tables all belong to an earlier policy, and readers that nothing waits for.
        """
        hidden = [
            f"policy {policy.name}: all tables of {glob} are those of policy {before.name}, which comes first and "
            f"names {wider}; put {policy.name} before it, or take {glob} out."
            for at, policy in enumerate(self.policies)
            for glob in policy.tables
            for before, wider in [
                (p, wider)
                for p in self.policies[:at]
                for wider in p.tables
                if p.catalog == policy.catalog and _covers(wider, glob)
            ][:1]
        ]
        return hidden + [
            f"policy {policy.name}: it names readers, and deletes wait for them only in tables that say "
            "horizon.readers=wait themselves; say it in the policy's settings."
            for policy in self.policies
            if policy.readers and policy.settings.get("horizon.readers") != "wait"
        ]

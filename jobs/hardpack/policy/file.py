"""The policy file: one YAML file for all policies. Imports neither Airflow nor a catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hardpack.errors import BadInput
from hardpack.home import default_home, trusted
from hardpack.policy.model import DEADLINE, Policies, Policy
from hardpack.rules.settings import dotted

VARIABLE = "HARDPACK_POLICIES"
GO_TOGETHER = {DEADLINE: ("deadline.ms", "on.deadline"), "value_error": ("settings", "readers")}
"""Fields of a policy that do not go together when an error names no field, by the kind of the error."""


def policy_file() -> Path | None:
    """Returns the file in force: HARDPACK_POLICIES, else `hardpack.yaml` in the home when it is there."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    usual = default_home() / "hardpack.yaml"
    # a link that leads nowhere counts as a file that cannot be read, not as no file
    return usual if os.path.lexists(usual) else None


def policies_in_force() -> Policies | None:
    """Returns the policies of the policy file, None when there is no file.

    Raises:
        BadInput: see `load_policies`.
    """
    path = policy_file()
    return load_policies(path) if path else None


def load_policies(path: Path) -> Policies:
    """Returns the policies of a file; a file that has not changed since the last call is not read again.

    Raises:
        BadInput: other users may write to the file, it cannot be read, is no YAML, or leaves open which tables belong
            to which policy; the sentence names the place. An error within one policy becomes its `problem` instead.
    """
    try:
        status = trusted(path).stat()
        return _loaded(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start} is no UTF-8; save the policies as UTF-8.") from None
    except RecursionError:
        raise BadInput(f"{path}: the policies are nested too deep, expected a list of flat policies.") from None
    except OSError as error:
        raise BadInput(f"{path}: the policies cannot be read ({error.strerror}); mend {VARIABLE}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise BadInput(f"{path}: this is no YAML{where} ({getattr(error, 'problem', error)}).") from None
    except ValueError as error:
        # such as an impossible date or number
        raise BadInput(f"{path}: YAML takes a value for what it cannot be ({error}); put it into quotes.") from None


class _OnceEach(yaml.SafeLoader):
    """YAML's safe loader, but it refuses a mapping with two fields of one name, of which YAML's keeps the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Returns a mapping once it is known that no field is given twice.

        Fields that it merges from an anchor are not in it yet, so they may be given again.
        """
        node = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} is given twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return node


# YAML 1.1 reads a time of day as a number of seconds; nobody means that by it, and its unit is not the setting's
_OnceEach.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_OnceEach.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789"))
_OnceEach.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?$"), list("-+0123456789")
)


@lru_cache(maxsize=4)
def _loaded(path: Path, *_version: int) -> Policies:
    """Reads the policies of a file. They are cached by path and version, as pages and looks ask for them again."""
    given = yaml.load(path.read_text(encoding="utf-8"), _OnceEach)  # noqa: S506  it is a safe loader
    try:
        policies = Policies.model_validate(given)
    except ValidationError as error:
        policies = _with_problems(given, path, error)
    checked = tuple(_with_its_readers(policies, policy, path, at) for at, policy in enumerate(policies.policies))
    return policies.model_copy(update={"policies": checked})


def _with_problems(given: Any, path: Path, error: ValidationError) -> Policies:
    """Returns the policies of a file with errors; a policy with an error has it as its problem.

    Raises:
        BadInput: an error leaves open which tables belong to which policy.
    """
    listed = given.get("policies") if isinstance(given, Mapping) else None
    if not isinstance(listed, list) or set(given) != {"policies"}:
        raise BadInput(_said(path, error)) from None
    policies = [_policy_of(entry, path, at) for at, entry in enumerate(listed)]
    try:
        return Policies(policies=tuple(policies))
    except ValidationError as wrong:
        raise BadInput(_said(path, wrong)) from None


def _policy_of(entry: Any, path: Path, at: int) -> Policy:
    """Returns one policy of a file; a wrong field has its default, and the policy's problem says what is wrong.

    Raises:
        BadInput: its name, its tables or its catalog are wrong.
    """
    # YAML reads a name such as `on` or `2026-01-01` as another type than text
    given = {str(name): value for name, value in entry.items()} if isinstance(entry, Mapping) else entry
    try:
        return Policy.model_validate(given)
    except ValidationError as error:
        problem = _said(path, error, ("policies", at))
        # an error without a place is of several fields that do not go together
        places = (one["loc"][:1] or GO_TOGETHER.get(one["type"], ()) for one in error.errors())
        wrong = {dotted(str(name)) for place in places for name in place}
    if not isinstance(given, dict) or wrong & {"name", "tables", "catalog"}:
        raise BadInput(problem)
    right = {name: value for name, value in given.items() if dotted(name) not in wrong}
    if len(right) == len(given):
        raise BadInput(problem)
    return _policy_of(right, path, at).refused(problem, wrong)


def _with_its_readers(policies: Policies, policy: Policy, path: Path, at: int) -> Policy:
    """Returns a policy, refused where it names a reader of another policy's table.

    Otherwise two policies might tell how far the reader is.
    """
    if not (strange := policies.strange_readers(policy)):
        return policy
    whose = policies.in_catalog(policy.catalog).of(strange[0].table)
    problem = (
        f"{path}: policies.{at}.readers: {strange[0].table} is a table of policy {whose.name if whose else 'none'}, "
        f"which comes first; name the reader {strange[0].name} there."
    )
    return policy.refused(f"{policy.problem} {problem}".strip(), ["readers"], readers=())


def _said(path: Path, error: ValidationError, inside: tuple[str | int, ...] = ()) -> str:
    """Returns all errors of a file, each with its place, as one sentence."""
    wrong = []
    for one in error.errors(include_url=False):
        place = ".".join(map(str, (*inside, *one["loc"]))) or "the file"
        said = str(one["ctx"]["error"]) if one["type"] == "value_error" else one["msg"]
        wrong.append(f"{place}: {said.rstrip('.')}")
    return f"{path}: {'; '.join(wrong)}; `hardpack policies --schema` prints what is expected."

"""Plans that the version before reads: a setting that it does not know is left out where it says nothing new."""

from hardpack.compaction.plan import SETTINGS_SINCE_VERSION_1, Plan
from hardpack.rules.settings import Settings

OF_VERSION_1 = {
    "active_segment", "audit_rows", "cleanup_policy", "column_batch", "column_control", "column_key",
    "column_leader_epoch", "column_offset", "column_partition", "column_producer_id", "column_timestamp",
    "column_transactional", "column_value", "commit_operation", "delete_retention_ms", "deletion_vector_max_ratio",
    "deletion_vector_min_bytes", "duplicates_ignore", "idle_tombstones", "key_absent", "key_filter_min_rows",
    "late_rows", "log_cleaner_dedupe_buffer_size", "log_cleaner_io_buffer_load_factor",
    "log_cleaner_io_max_bytes_per_second", "log_cleaner_threads", "maintenance", "max_compaction_lag_ms",
    "min_cleanable_dirty_ratio", "min_compaction_lag_ms", "null_keys", "orphan_age_ms", "retention_bytes",
    "retention_ms", "segment_bytes", "tombstone",
}  # fmt: skip


def written(**settings):
    given = {name.replace("_", "."): value for name, value in settings.items()}
    settings = Settings.model_validate(given)
    plan = Plan(table="a.b", uuid="u", snapshot=1, now=5, force=False, settings=settings, logs=())
    return plan, Plan.from_json(plan.to_json()), plan.to_json()


def test_every_setting_is_of_version_1_or_known_to_be_newer():
    """One that is in neither list would make every plan one that executors of the version before refuse."""
    assert set(Settings.model_fields) == OF_VERSION_1 | set(SETTINGS_SINCE_VERSION_1)


def test_a_newer_setting_is_in_a_plan_only_where_somebody_set_it():
    plan, read, text = written()
    assert read == plan
    assert "segment.ms" not in text
    plan, read, text = written(segment_ms="60000")
    assert read == plan
    assert '"segment.ms":60000' in text

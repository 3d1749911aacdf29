"""docs/compatibility.md is true: its faults have tests, its cases exist, and the names in its tables are in the code.

| what | where it is from |
|---|---|
| K1 … K44 | faults of HAMi v2.10.0; each with a test that its behaviour fails, or kept |
| H01 … H66 | cases, each in a test's name |
"""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from deviceplugin import tuning
from hami_platform import env, env_flags
from hami_platform.domain.vendors import registry

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")

# Test files are relative to tests/. A fault that is kept may have a test of what is kept.
FAULTS: Final[Mapping[int, tuple[str, ...]]] = {
    1: (
        "domain/test_fit.py::test_k1_rows_name_the_container_s_position",
        "accounting/test_cluster_import.py::test_k1_rows_that_cannot_be_attributed_count_as_apps_and_never_shrink",
    ),
    2: (
        "domain/test_lifecycle.py::test_h33_a_sidecar_and_its_app_hold_together_at_all_times",
        "domain/test_lifecycle.py::test_h37_a_restarting_sidecar_changes_nothing",
    ),
    3: ("accounting/test_pod_path.py::test_a_rebuilt_sandbox_charges_the_init_again",),
    4: ("domain/test_quota.py::test_k4_apps_add_up_whatever_init_containers_there_are",),
    5: ("domain/test_lifecycle.py::test_h35_use_falls_as_each_init_ends",),
    6: ("accounting/test_hami_faults.py::test_k6_a_pod_first_seen_after_its_init_ended_holds_what_its_app_needs",),
    7: ("domain/test_score.py::test_device_score_adds_the_request_of_its_vendor",),
    8: ("accounting/test_hami_faults.py::test_k8_a_pod_that_is_being_deleted_counts_when_it_is_first_seen",),
    9: (
        "accounting/test_hami_faults.py::test_k9_annotations_left_on_an_unbound_pod_hold_nothing",
        "accounting/test_pod_path.py::test_h28_pod_not_found_at_bind_releases_at_once",
        "accounting/test_leases.py::test_a_lapsed_reservation_frees_the_device_and_keeps_the_claim",
    ),
    10: ("domain/test_fit.py::test_k10_topology_with_numa_bind_looks_at_every_numa_node",),
    11: ("domain/test_topology.py::test_k11_eight_of_sixteen_look_at_a_part_of_the_combinations",),
    12: (
        "scheduler_ext/test_binder.py::test_h52_members_of_a_gang_bound_in_the_same_moment_both_bind",
        "scheduler_ext/test_node_queue.py::test_binds_to_one_node_run_in_the_order_of_arrival",
    ),
    13: (
        "accounting/test_hami_faults.py::test_k13_devices_registered_in_another_order_write_nothing",
        "deviceplugin/test_register.py::test_devices_are_in_uuid_order_whatever_their_index",
    ),
    14: (
        "accounting/test_liveness.py::test_our_agents_node_and_a_node_without_devices_are_never_stamped",
        "accounting/test_liveness.py::test_hamis_plugin_is_asked_once",
    ),
    15: ("accounting/test_hami_faults.py::test_k15_a_cordon_counts_at_the_next_pass_and_falls_with_the_next",),
    16: ("accounting/test_liveness.py::test_k16_a_dead_plugin_stays_out_until_it_is_back",),
    17: ("accounting/test_hami_faults.py::test_k17_a_placement_makes_only_its_own_node_anew",),
    18: ("accounting/test_storms.py::test_64_placements_on_one_device_that_fits_5",),
    19: ("scheduler_ext/test_webhook.py::test_h25_pods_created_in_the_same_moment_never_exceed_the_quota",),
    20: (
        "accounting/test_hami_faults.py::test_k20_the_least_of_several_resource_quotas_binds_in_any_order",
        "accounting/test_hami_faults.py::test_k20_a_limit_in_bytes_is_taken_as_it_is_and_told",
    ),
    21: ("domain/test_lower_bound.py::test_h23_a_percentage_is_charged_as_of_the_smallest_eligible_device",),
    22: ("domain/test_quota.py::test_k22_a_mig_instance_is_charged_its_profile",),
    23: ("domain/test_quota.py::test_k23_two_instances_of_one_init_container_add_up",),
    24: ("accounting/test_hami_faults.py::test_k24_a_mig_card_stays_open_from_filter_on",),
    25: ("domain/test_requests_nvidia.py::test_h05_bytes_are_refused_with_the_unit_and_the_number_to_write",),
    26: (
        "scheduler_ext/test_hami_faults.py::test_k26_a_bind_that_names_another_pod_takes_nothing_from_the_reserved_one",
        "scheduler_ext/test_binder.py::test_a_pod_is_bound_only_to_its_reserved_node",
        "hami_platform/test_env.py::test_an_extender_beyond_loopback_needs_client_certificates",
    ),
    27: ("domain/test_score.py::test_k27_a_policy_without_a_known_word_leaves_the_cluster_s_default",),
    28: ("domain/test_admission.py::test_k28_env_is_replaced_by_name_and_never_repeated",),
    29: (
        "domain/test_admission.py::test_law_9_a_patched_pod_keeps_everything_it_had",
        "domain/test_admission.py::test_h13_a_pod_without_devices_is_allowed_untouched",
    ),
    30: ("domain/test_admission.py::test_k30_env_goes_only_where_it_belongs",),
    31: ("accounting/test_meters.py::test_a_pods_figures_are_the_sums_of_its_rows",),
    32: ("scheduler_ext/test_health.py::test_before_the_first_compare_a_process_is_alive_and_not_ready",),
    33: (
        "domain/test_locks.py::test_h51_an_unreadable_lock_is_freed_after_one_timeout_with_an_alarm",
        "scheduler_ext/test_node_lock.py::test_a_recreated_pod_does_not_inherit_the_lock_of_its_namesake",
    ),
    34: (
        "scheduler_ext/test_webhook.py::test_h10_an_owned_annotation_is_denied_by_key",
        "scheduler_ext/test_webhook.py::test_an_owned_key_is_changed_only_by_writers",
    ),
    35: (
        "scheduler_ext/test_hami_faults.py::test_k35_a_call_without_any_node_list_is_an_error",
        "scheduler_ext/test_filter.py::test_whole_nodes_reserve_where_the_scheduler_caches_nothing",
    ),
    36: ("scheduler_ext/test_hami_faults.py::test_k36_a_simulation_sees_live_use_and_names_every_node_that_fits",),
    37: ("hami_platform/test_env_flags.py::test_k37_the_lock_age_of_hamis_chart_counts_unless_its_flag_says_one",),
    38: (
        "domain/test_place.py::test_ties_go_to_the_first_name_whatever_the_order_of_candidates",
        "domain/test_score.py::test_a_full_tie_tries_the_highest_numa_node_and_index_first",
    ),
    39: ("domain/test_requests_nvidia.py::test_h03_a_percentage_is_of_the_registered_memory_rounded_down",),
    40: ("accounting/test_leases.py::test_one_holder_has_a_lease_and_each_change_of_holder_raises_the_epoch",),
    41: ("scheduler_ext/test_hami_faults.py::test_k41_the_nodes_refused_on_the_way_are_told_with_a_success",),
    42: ("scheduler_ext/test_binder.py::test_a_long_node_name_gets_no_label",),
    43: (
        "domain/test_fit_mig.py::test_k43_all_of_a_card_s_memory_is_no_instance_unless_the_cluster_says_so",
        "accounting/test_hami_faults.py::test_k43_a_whole_mig_card_is_its_largest_instance_where_that_is_configured",
    ),
    44: ("domain/test_fit.py::test_k44_the_app_goes_where_an_init_container_has_already_reserved",),
}
KEPT: Final = frozenset({31, 39, 40, 43})

VARIABLES: Final = frozenset(name for row in env.TABLE for name in (row.variable, *row.also))

PLUGINS_OWN: Final = frozenset({"chipName", "aiCore", "aiCPU", "models", "profiles"})
"""Keys of device-config.yaml that only vendors' plugins read."""


@functools.cache
def names_in(file: str) -> frozenset[str]:
    """Names of the tests in a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def all_names() -> Iterator[str]:
    """Names of all tests."""
    for file in TESTS.rglob("test_*.py"):
        yield from names_in(str(file.relative_to(TESTS)))


def faults_table() -> dict[int, str]:
    """K number → its row on the page."""
    rows = re.findall(r"^\| (K\d+[KO\d, ]*) \|(.*)\|$", PAGE, re.MULTILINE)
    return {int(number): text for numbers, text in rows for number in re.findall(r"K(\d+)", numbers)}


def test_every_fault_of_hami_has_a_test_and_a_row_on_the_page() -> None:
    assert set(FAULTS) == set(faults_table()) == set(range(1, 45))


@pytest.mark.parametrize("number", FAULTS)
def test_the_tests_of_a_fault_exist(number: int) -> None:
    for test in FAULTS[number]:
        file, _, name = test.partition("::")
        assert name in names_in(file), test


def test_what_is_kept_says_so_on_the_page() -> None:
    said = {number for number, text in faults_table().items() if "*kept" in text}
    assert said == KEPT


def test_a_fault_in_a_test_s_name_is_one_of_the_page() -> None:
    named = {int(number) for name in all_names() for number in re.findall(r"(?:^|_)k(\d+)_", name)}
    assert named <= set(FAULTS)


def test_every_case_is_in_a_test_s_name() -> None:
    found: set[int] = set()
    for name in all_names():
        for first, last in re.findall(r"h(\d\d)[a-z]?(?:_to_h(\d\d))?(?=_|$)", name):
            found |= set(range(int(first), int(last or first) + 1))
    assert set(range(1, 67)) <= found


# -- the tables --------------------------------------------------------------------------------------------------------


def rows() -> Iterator[tuple[str, str]]:
    """(first column, verdict) of the rows under "Item by item"."""
    part = PAGE.split("## Item by item", 1)[1]
    for line in part.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 and cells[1] != "here" and not set(cells[0]) <= {"-"}:
            yield cells[0], cells[1]


@functools.cache
def code() -> str:
    """All of our own code and manifests."""
    folders = ("hami_platform", "accounting", "scheduler_ext", "deviceplugin", "deploy")
    files = [
        file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".yaml", ".j2")
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(files))


def known(name: str) -> bool:
    """Whether the code has this name. `<word>` is filled in there."""
    if name.startswith("-"):
        flags = {flag for row in env.TABLE for flag in row.flags} | set(env_flags.ACCEPTED_FLAGS)
        return name.lstrip("-") in flags
    if "<" in name:
        pattern = re.escape(name).replace("<word>", r"\{[a-z_.]+\}")
        return re.search(pattern, code()) is not None
    if name.startswith("HAMI_"):
        return name in VARIABLES
    if name.startswith("/"):
        return f'"{name[1:]}"' in code()
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code()) is not None or suffixed(name)


def suffixed(name: str) -> bool:
    """Metrics whose ending the metrics library adds, and keys that are put together from prefix and name."""
    return f'"{name.removesuffix("_total")}"' in code() or f'"{name.rpartition("/")[2]}"' in code()


def test_a_verdict_is_one_of_four_words() -> None:
    verdicts = [verdict for _, verdict in rows()]
    assert len(verdicts) > 60
    assert not [one for one in verdicts if not one.startswith(("same", "better", "no:", "no", "not yet"))]


def test_every_name_that_is_the_same_or_better_is_in_the_code() -> None:
    missing = {
        name
        for first, verdict in rows()
        if verdict.startswith(("same", "better"))
        for name in re.findall(r"`([^`]+)`", first)
        if not known(name)
    }
    assert missing == NOT_OURS


NOT_OURS: Final = frozenset({"scheduling.x-k8s.io/pod-group", "-to-allocate"})
"""Names on the page that are no names of ours: what is not read, and a part of a name."""


def test_no_setting_on_the_page_is_made_up() -> None:
    assert not set(re.findall(r"`(HAMI_[A-Z_]+)`", PAGE)) - VARIABLES


# -- device-config.yaml ------------------------------------------------------------------------------------------------


class Recorded(dict[str, Any]):
    """A section that remembers which of its keys were asked for."""

    def __init__(self, values: Mapping[str, Any], all_: list[Recorded]) -> None:
        super().__init__({key: recorded(value, all_) for key, value in values.items()})
        self.asked: set[str] = set()
        all_.append(self)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


def recorded(value: Any, all_: list[Recorded]) -> Any:
    if isinstance(value, dict):
        return Recorded(value, all_)
    return [recorded(one, all_) for one in value] if isinstance(value, list) else value


def test_every_key_that_hamis_chart_writes_is_read() -> None:
    file = TESTS / "golden" / "conformance" / "configs" / "chart.json"
    sections: list[Recorded] = []
    registry.device_config(recorded(json.loads(file.read_text(encoding="utf-8")), sections))
    unread = {key for section in sections for key in set(section) - section.asked}
    assert unread <= PLUGINS_OWN | set(tuning._FOR_ALL)

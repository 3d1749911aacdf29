from __future__ import annotations

import pytest

from hami_platform import env, env_flags


def test_hami_flags_become_variables() -> None:
    variables, ignored = env_flags.variables_of(["--scheduler-name=gpu", "--kube-qps", "7", "-node-lock-timeout=1m"])
    assert variables == {"HAMI_SCHEDULER_NAME": "gpu", "HAMI_KUBE_QPS": "7", "HAMI_NODE_LOCK_TIMEOUT": "1m"}
    assert ignored == ()


def test_a_bare_boolean_flag_means_true() -> None:
    variables, _ = env_flags.variables_of(["--legacy-metrics", "--force-overwrite-default-scheduler=false"])
    assert variables == {"HAMI_LEGACY_METRICS": "true", "HAMI_FORCE_OVERWRITE_DEFAULT_SCHEDULER": "false"}


def test_flags_of_its_chart_are_accepted_and_named() -> None:
    _, ignored = env_flags.variables_of(["--debug", "-v=4", "--leader-elect=true", "--profiling"])
    assert ignored == ("debug", "v", "leader-elect", "profiling")


def test_debug_of_the_chart_does_not_open_the_debug_pages() -> None:
    variables, _ = env_flags.variables_of(["--debug"])
    assert not env.load(variables).debug


def test_an_unbounded_kube_timeout_keeps_our_bound() -> None:
    assert env_flags.variables_of(["--kube-timeout=0"]) == ({}, ())


def test_an_unknown_flag_is_named() -> None:
    with pytest.raises(env.BadSettingsError, match="--no-such-thing: no such flag"):
        env_flags.variables_of(["--no-such-thing=1"])


@pytest.mark.parametrize("flags, seconds", [((), 600), (("--node-lock-timeout=1m",), 60)])
def test_k37_the_lock_age_of_hamis_chart_counts_unless_its_flag_says_one(flags: tuple[str, ...], seconds: int) -> None:
    variables, _ = env_flags.variables_of(flags)
    assert env.load({"HAMI_NODELOCK_EXPIRE": "10m"} | variables).node_lock_timeout_s == seconds


def test_flags_of_klog_are_accepted_and_named() -> None:
    assert env_flags.variables_of(["--logtostderr", "--vmodule=a=1", "--stderrthreshold", "2"])[1] == (
        "logtostderr",
        "vmodule",
        "stderrthreshold",
    )

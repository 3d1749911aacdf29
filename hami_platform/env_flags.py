"""HAMi's command line flags, read as the variables of the table in `env`.

Knows no Django. For manifests that started HAMi's scheduler: `manage.py serve --role webhook --scheduler-name=…`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hami_platform import env
from hami_platform import env_values as values

# HAMi's flags without a counterpart here: accepted so that its manifests start, and reported once.
ACCEPTED_FLAGS: Final = {
    "leader-elect": "any number of replicas serve; the database decides",
    "leader-elect-resource-name": "see leader-elect",
    "leader-elect-resource-namespace": "see leader-elect",
    "profiling": "there is no pprof endpoint",
    "enable-ascend": "every vendor is enabled",
    "enable-iluvatar": "every vendor is enabled",
    "debug": "use HAMI_LOG_LEVEL",
    "fail-on-init-error": "the agent never waits in silence for a driver",
    "kubelet-socket": "use HAMI_KUBELET_DIR",
    "device-discovery-strategy": "devices are found by NVML, or read from HAMI_INVENTORY_FILE",
    "imex-required": "a channel that is named must exist",
    "v": "use HAMI_LOG_LEVEL",
    # klog's. Source: k8s.io/klog/v2, InitFlags.
    **dict.fromkeys(
        (
            "add_dir_header",
            "alsologtostderr",
            "legacy_stderr_threshold_behavior",
            "log_backtrace_at",
            "log_dir",
            "log_file",
            "log_file_max_size",
            "logtostderr",
            "one_output",
            "skip_headers",
            "skip_log_headers",
            "stderrthreshold",
            "vmodule",
        ),
        "logs go to the standard output; see HAMI_LOG_LEVEL and HAMI_LOG_FORMAT",
    ),
}


def variables_of(arguments: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Turn HAMi's command line flags into variables.

    `--flag=value`, `--flag value`, `-flag=value` and a bare boolean flag are read as Go's flag packages do. Returns
    the variables and the accepted flags without effect. Raises env.BadSettingsError on any other argument.
    """
    by_flag = {flag: row for row in env.TABLE for flag in row.flags}
    variables: dict[str, str] = {}
    ignored: list[str] = []
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        row = by_flag.get(name)
        if row is None and name not in ACCEPTED_FLAGS:
            raise env.BadSettingsError([f"--{name}: no such flag"])
        takes_next = not equals and rest and not rest[0].startswith("-")
        if takes_next and (row is None or row.read is not values.boolean or rest[0].lower() in {"true", "false"}):
            value = rest.pop(0)
        if row is None:
            ignored.append(name)
        else:
            variables[row.variable] = value if equals or value or row.read is not values.boolean else "true"
    if variables.get("HAMI_KUBE_TIMEOUT") == "0":
        del variables["HAMI_KUBE_TIMEOUT"]  # HAMi's 0 is "no bound", and ours are never without
    return variables, tuple(ignored)

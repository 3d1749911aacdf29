"""Webhook configurations: defaults and validation. Knows nothing of calling webhooks.

Source: Kubernetes pkg/apis/admissionregistration/{v1/defaults.go,validation}, v1.36. What the simulator cannot do as
the real server would (calling a webhook again, unknown match conditions) is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from hami_platform.simulator.api import cel, cel_values, errors
from hami_platform.simulator.api.types import Obj

_DEFAULTS: tuple[tuple[str, object], ...] = (
    ("failurePolicy", "Fail"),
    ("matchPolicy", "Equivalent"),
    ("timeoutSeconds", 10),
    ("reinvocationPolicy", "Never"),
)
_WORDS = (
    ("sideEffects", ("None", "NoneOnDryRun")),
    ("failurePolicy", ("Fail", "Ignore")),
    ("reinvocationPolicy", ("Never",)),
)


def set_defaults(obj: Obj) -> None:
    """Fill in what the version defaults."""
    for hook in obj.get("webhooks") or []:
        for key, value in _DEFAULTS:
            hook.setdefault(key, value)
        for key in ("namespaceSelector", "objectSelector"):
            hook.setdefault(key, {})
        for rule in hook.get("rules") or []:
            rule.setdefault("scope", "*")


def causes(obj: Obj) -> list[errors.Cause]:
    """Everything that is wrong with a configuration."""
    found: list[errors.Cause] = []
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or []):
        field, name = f"webhooks[{index}]", str(hook.get("name") or "")
        if name.count(".") < 2:
            text = "should be a domain with at least three segments separated by dots"
            found.append(errors.bad_value(f"{field}.name", name, text))
        if name in names:
            found.append(errors.Cause(f"{field}.name", "FieldValueDuplicate", f'"{name}"'))
        names.add(name)
        found += [*_words(hook, field), *_bounds(hook, field), *_conditions(hook, field)]
        found += _client(hook.get("clientConfig") or {}, f"{field}.clientConfig")
    return found


def _words(hook: Obj, field: str) -> Iterator[errors.Cause]:
    for key, allowed in _WORDS:
        if hook.get(key) not in allowed:
            yield errors.unsupported(f"{field}.{key}", hook.get(key), allowed)


def _bounds(hook: Obj, field: str) -> Iterator[errors.Cause]:
    versions = hook.get("admissionReviewVersions") or []
    if not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        yield errors.bad_value(f"{field}.admissionReviewVersions", versions, text)
    if not 1 <= int(hook["timeoutSeconds"]) <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield errors.bad_value(f"{field}.timeoutSeconds", hook["timeoutSeconds"], text)


def _conditions(hook: Obj, field: str) -> Iterator[errors.Cause]:
    for index, condition in enumerate(hook.get("matchConditions") or []):
        expression = str(condition.get("expression"))
        try:
            cel.compile_expression(expression)
        except cel_values.CelError as failure:
            at = f"{field}.matchConditions[{index}].expression"
            yield errors.bad_value(at, expression, f"compilation failed: {failure}")


def _client(client: Obj, field: str) -> list[errors.Cause]:
    url = client.get("url")
    if (url is None) == (client.get("service") is None):
        return [errors.required(field, "exactly one of url or service is required")]
    if url is not None and not str(url).startswith("https://"):
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [errors.bad_value(f"{field}.url", str(url).partition(":")[0], text)]
    if url is not None and "?" in str(url):
        return [errors.bad_value(f"{field}.url", url, "query parameters are not permitted in the URL")]
    return []

from __future__ import annotations

import uuid

import pytest

from hami_platform import metrics


def test_a_registered_metric_is_shown_with_its_value() -> None:
    name = f"test_{uuid.uuid4().hex}_seconds"
    metrics.gauge(name, "for a test", ("node",)).labels(node="n1").set(3)
    assert f'{name}{{node="n1"}} 3.0' in metrics.render().decode()


def test_a_name_is_taken_once() -> None:
    name = f"test_{uuid.uuid4().hex}_total"
    metrics.counter(name, "for a test")
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.counter(name, "for a test")

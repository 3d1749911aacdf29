"""What tests ask the ledger, and how they set quotas: a client of probe.py, which runs beside the platform.

The probe is a process with the platform's own settings, so that the test process needs no Django and no
connection to the database that tests take away.
Must not know: models and services.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class ProbeFailed(Exception):
    """The probe answered with an error: its text is the product's own exception."""


class Ledger:
    """One probe process, asked one question at a time over its standard input."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.probe"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=dict(environment),
                text=True,
            )

    def close(self) -> None:
        """End the probe: it ends with its input."""
        with contextlib.closing(self._process.stdout or contextlib.nullcontext()):
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(20)

    def reachable(self) -> bool:
        """Whether the database answers the probe; its first question after an outage finds the broken connection."""
        try:
            self._ask("locks")
        except ProbeFailed:
            return False
        return True

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The newest row of that name: state, node, gated, refusal, wire, shares, held per device; or None."""
        found: dict[str, Any] | None = self._ask("pod", namespace=namespace, name=name)
        return found

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """All rows of a namespace that have not ended, in the shape of `pod`."""
        rows: list[dict[str, Any]] = self._ask("pods", namespace=namespace)
        return rows

    def devices(self) -> dict[str, dict[str, int]]:
        """Device uuid → {slots, memory_mib, core_percent} held on it now."""
        held: dict[str, dict[str, int]] = self._ask("devices")
        return held

    def used_mib(self, namespace: str) -> int:
        """What the namespace is charged now, claims included, MiB."""
        used: int = self._ask("used_mib", namespace=namespace)
        return used

    def quota_set(self, namespace: str, *, mode: str | None = None, **limits: int | None) -> None:
        """Set the namespace's default quota; limits by field name, mode where it shall change."""
        self._ask("quota_set", namespace=namespace, mode=mode, limits=limits)

    def traces(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Stored decisions of `/filter` about a pod: verdict, reason, summary."""
        rows: list[dict[str, Any]] = self._ask("traces", namespace=namespace, name=name)
        return rows

    def agents(self) -> dict[str, str]:
        """Node → version of our agent on it, empty where HAMi's plugin serves."""
        agents: dict[str, str] = self._ask("agents")
        return agents

    def findings(self, kind: str) -> dict[str, str]:
        """Open findings of a kind: subject → message."""
        findings: dict[str, str] = self._ask("findings", kind=kind)
        return findings

    def locks(self) -> dict[str, str]:
        """Node → uid of the pod that may allocate there now."""
        locks: dict[str, str] = self._ask("locks")
        return locks

    def decoded(self, annotations: Mapping[str, str]) -> list[dict[str, Any]]:
        """A pod's allocated annotation, read by the product's codec: one entry per container and device."""
        rows: list[dict[str, Any]] = self._ask("decoded", annotations=dict(annotations))
        return rows

    def managed_resources(self) -> list[str]:
        """Every extended resource that a vendor declares."""
        names: list[str] = self._ask("managed_resources")
        return names

    def _ask(self, question: str, **arguments: Any) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise ProbeFailed("the probe has no pipes")
        self._process.stdin.write(json.dumps({"question": question, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ProbeFailed(f"the probe ended with {self._process.poll()}; see probe.log")
        answer = json.loads(line)
        if "error" in answer:
            raise ProbeFailed(f"{question}: {answer['error']}")
        return answer["answer"]

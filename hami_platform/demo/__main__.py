"""`make demo`: the whole platform on this machine, with a simulated cluster. It needs no root, network or service."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

from hami_platform.demo import fleet, installation, leftovers, looks, ports, supervisor, workloads
from hami_platform.demo.supervisor import say

FAILED, STOPPED = 1, 0
_LOOK_S: Final = 0.2
_HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class _Over(Exception):
    """Somebody asked to stop."""


def main(arguments: Sequence[str]) -> int:
    """0 after a stop that was asked for, 1 when a process failed, 2 when it could not begin."""
    asked = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        with _folders(asked.keep) as (folder, sockets):
            made = installation.prepare(folder, sockets, ports.choose(asked.port), asked.seed)
            return _run(made, asked)
    except (installation.Unusable, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except _Over:
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("make demo", description=__doc__)
    parser.add_argument("--keep", metavar="DIR", type=pathlib.Path, help="keep state and logs in this new folder")
    parser.add_argument("--exit-after", metavar="S", type=float, help="stop by itself S seconds after all is up")
    parser.add_argument("--port", metavar="N", type=int, default=ports.FIRST, help="first port to try (8800)")
    parser.add_argument("--seed", metavar="N", type=int, default=42, help="another stream of pods and another past")
    return parser


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _Over


@contextlib.contextmanager
def _folders(keep: pathlib.Path | None) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """(everything, sockets), of which only a kept folder stays. Raises Unusable."""
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise installation.Unusable(f"{keep} is not empty: name a new folder")
    leftovers.sweep(pathlib.Path(tempfile.gettempdir()))
    own = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.PREFIX))
    lock = leftovers.mark(own)
    try:
        if keep is None:
            yield own / "run", own / "s"
        else:
            keep.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield keep.resolve(), own / "s"
    finally:
        shutil.rmtree(own, ignore_errors=True)
        lock.close()


def _run(made: installation.Installation, asked: argparse.Namespace) -> int:
    crew = supervisor.Supervisor(made.log)
    try:
        _start(made, crew)
        _tell(made)
        _watch(crew, asked.exit_after)
    except supervisor.Failed as failure:
        say(f"\n{failure}")
        return FAILED
    except (OSError, ValueError) as fault:  # a look that was answered wrongly
        say(f"\n{fault}; logs are in {made.log('x').parent}" + ("" if asked.keep else ", if started with --keep"))
        return FAILED
    except _Over:
        say("\nstopping")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it running
        crew.stop()
    return STOPPED


def _start(made: installation.Installation, crew: supervisor.Supervisor) -> None:
    say(f"Demonstration in {made.folder}: {len(fleet.NODES)} nodes, {len(fleet.uuids())} GPUs, seed {made.seed}")
    _until_page(made, crew)
    _until_pods(made, crew)


def _until_page(made: installation.Installation, crew: supervisor.Supervisor) -> None:
    """As little as a cluster page with devices needs; the rest must not take its processor time."""
    with crew.stage("simulated cluster"):
        crew.start(made.migrate(), made.cluster())
        crew.wait(lambda: made.kubeconfig.exists() and looks.api_answers(made.api_url), "the simulated API server")
    crew.start(*(made.agent(node) for node in fleet.NODES), made.listener("web"))
    with crew.stage("database, node agents, console"):
        crew.finish("migrate")
        filling = ("demo_fill", str(made.folder / "scenario.json"), "--links", str(made.links))
        crew.start(made.watcher(), made.once("fill", *filling))
        crew.wait(made.links.exists, "people and quotas")
    links = json.loads(made.links.read_text(encoding="utf-8"))
    made.links.unlink()
    with crew.stage("cluster page with devices in it"):
        console = looks.Console(made.web_url)
        crew.wait(console.answers, "the console")
        console.sign_in(links["look"])
        crew.wait(lambda: console.shown(fleet.uuids()) == len(fleet.uuids()), "all devices on the page")
    say(f"\n  sign in   {made.web_url}/login/{links['person']}   (once, within 10 minutes)")
    say(f"  console   {made.web_url}/\n")


def _until_pods(made: installation.Installation, crew: supervisor.Supervisor) -> None:
    webhook, extender = f"https://127.0.0.1:{made.ports.webhook}", f"http://127.0.0.1:{made.ports.extender}"
    with crew.stage("webhook and scheduler extender"):
        crew.start(made.listener("webhook"), made.listener("extender"))
        crew.wait(lambda: looks.ready(webhook, made.authority), "the webhook")
        crew.run_through(
            made.once("webhook-config", "webhook_config", "--url", f"{webhook}/webhook", "--format", "json")
        )
        looks.api_create(made.api_url + _HOOKS, json.loads(made.log("webhook-config").read_text(encoding="utf-8")))
        crew.wait(lambda: looks.ready(extender), "the extender")
    crew.start(made.users(), made.celery("worker"), made.celery("beat"))
    reasons = len(workloads.WAITING)
    with crew.stage("pods through webhook, extender and agents"):
        crew.wait(lambda: len(looks.pods(made.api_url).reasons) >= reasons, f"{reasons} reasons to wait")
        most = len(workloads.FOUNDATION) + len(workloads.RESIDENTS) + workloads.GUESTS_AT_ONCE // 2
        crew.wait(lambda: looks.pods(made.api_url).placed >= most, f"{most} pods with devices")
    found = looks.pods(made.api_url)
    say(f"\n  {found.placed} pods have devices, {found.reasons.total()} wait: {', '.join(sorted(found.reasons))}")


def _tell(made: installation.Installation) -> None:
    say(
        f"""
  kubectl   export KUBECONFIG={made.kubeconfig}
  commands  set -a; . {made.env_file}; set +a     then: .venv/bin/python manage.py login_link alice
  logs      {made.log("x").parent}

  What to try next is in docs/demo.md. Ctrl-C ends everything.
"""
    )


def _watch(crew: supervisor.Supervisor, exit_after_s: float | None) -> None:
    until = time.monotonic() + exit_after_s if exit_after_s is not None else float("inf")
    while time.monotonic() < until:
        crew.look_after()
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

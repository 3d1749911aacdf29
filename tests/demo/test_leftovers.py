"""A demonstration removes what a killed one left, and nothing that is in use."""

from __future__ import annotations

import pathlib

from hami_platform.demo import leftovers


def test_only_folders_that_nobody_uses_are_removed(tmp_path: pathlib.Path) -> None:
    for name in ("hami-demo-dead", "hami-demo-alive", "something-else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.sqlite3").touch()
    leftovers.mark(tmp_path / "hami-demo-dead").close()
    (tmp_path / "something-else" / "lock").touch()
    with leftovers.mark(tmp_path / "hami-demo-alive"):
        leftovers.sweep(tmp_path)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["hami-demo-alive", "something-else"]

"""Removing a container's directory, whatever the container left in it: it could write there as it liked."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from deviceplugin import removal


def deep(path: Path, levels: int) -> None:
    """Directories in each other, deeper than any path may be long and than Python recurses."""
    path.mkdir()
    at = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)


def test_directories_in_each_other_without_end_are_removed(light: Path) -> None:
    deep(light / "uid_main", 3000)
    assert removal.remove(light / "uid_main")
    assert not (light / "uid_main").exists()


def test_many_directories_with_the_same_names_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "uid_main"
    for path in ("a/b/c", "a/b/d", "b/b/b", "x0/x1/x0", "x1/x0"):
        (top / path).mkdir(parents=True)
        (top / path / "file").touch()
    assert removal.remove(top)
    assert not top.exists()


def test_links_pipes_and_sockets_go_and_what_they_point_to_stays(tmp_path: Path) -> None:
    top = tmp_path / "uid_main"
    top.mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (top / "link").symlink_to(tmp_path / "precious")
    (top / "file").symlink_to(tmp_path / "precious" / "file")
    os.mkfifo(top / "pipe")
    removed: list[bool] = []
    thread = threading.Thread(target=lambda: removed.append(removal.remove(top)), daemon=True)
    thread.start()
    thread.join(20)
    assert removed == [True]
    assert (tmp_path / "precious" / "file").exists()


def test_a_flood_of_files_is_removed_in_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "ENTRIES_MOST", 10)
    top = tmp_path / "uid_main"
    (top / "sub").mkdir(parents=True)
    for number in range(12):
        (top / f"f{number}").touch()
        (top / "sub" / f"f{number}").touch()
    passes = 0
    while not removal.remove(top):
        passes += 1
        assert passes < 10
    assert passes >= 2


def test_what_is_no_directory_or_is_gone(tmp_path: Path) -> None:
    assert removal.remove(tmp_path / "none")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "uid_main").symlink_to(tmp_path / "precious")
    assert not removal.remove(tmp_path / "uid_main")
    assert (tmp_path / "precious" / "file").exists()

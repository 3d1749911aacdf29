"""Which file is a container's region, and what is not opened: its directory is writable by everyone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from deviceplugin import region, region_files
from deviceplugin.region_files import Owner
from tests.deviceplugin.regions import content, write

MINE = Owner("uid", "main")


def problem(root: Path, *, writable: bool = True) -> str:
    with pytest.raises(region.RegionError) as caught, region_files.opened(root, MINE, writable=writable):
        raise AssertionError("it was opened")
    return caught.value.problem


def folder(root: Path) -> Path:
    path = root / MINE.directory
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.mark.parametrize(
    "name, expected",
    [
        ("uid_ctr", Owner("uid", "ctr")),
        ("uid_a_b", Owner("uid", "a_b")),
        ("uid_", None),
        ("_c", None),
        ("x", None),
        ("", None),
    ],
)
def test_a_directory_is_named_after_pod_and_container(name: str, expected: Owner | None) -> None:
    assert region_files.owner_of(name) == expected
    assert expected is None or expected.directory == name


def test_plain_files_links_and_other_names_are_no_containers(tmp_path: Path) -> None:
    (tmp_path / "b_main").mkdir()
    (tmp_path / "a_main").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "file_main").touch()
    (tmp_path / "link_main").symlink_to(tmp_path / "a_main")
    assert region_files.owners(tmp_path) == [Owner("a", "main"), Owner("b", "main")]
    assert region_files.owners(tmp_path / "none") == []


@pytest.mark.parametrize(
    "names, expected",
    [
        ([], None),
        (["libvgpu.so"], None),
        (["notes.txt"], None),
        (["libvgpu.so", "b.cache"], "b.cache"),
        (["z.cache", "b.cache"], "b.cache"),
        (["libvgpu.so.cache", "b.cache"], "b.cache"),
    ],
)
def test_the_first_cache_file_is_the_region(names: list[str], expected: str | None) -> None:
    assert region_files.cache_name(names) == expected


def test_three_matching_names_are_an_error() -> None:
    with pytest.raises(region.RegionError, match="3 files"):
        region_files.cache_name(["libvgpu.so", "a.cache", "b.cache"])


def test_a_region_is_opened_and_closed_again(tmp_path: Path) -> None:
    write(tmp_path / MINE.directory / "a.cache", content())
    with region_files.opened(tmp_path, MINE, writable=False) as file:
        assert file is not None
        assert region.read(file).processes == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_without_a_file_there_is_nothing_yet(tmp_path: Path) -> None:
    folder(tmp_path)
    with region_files.opened(tmp_path, MINE, writable=True) as file:
        assert file is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", content())
    (folder(tmp_path) / "a.cache").symlink_to(secret)
    assert problem(tmp_path) == "not_a_file"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path) / "a.cache")
    assert problem(tmp_path) == "not_a_file"
    assert problem(tmp_path, writable=False) == "not_a_file"


def test_a_directory_or_a_socket_is_no_region(tmp_path: Path) -> None:
    path = folder(tmp_path) / "a.cache"
    path.mkdir()
    assert problem(tmp_path) == "not_a_file"
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert problem(tmp_path) == "not_a_file"


def test_a_directory_replaced_by_a_link_is_not_entered(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.cache", content())
    (tmp_path / MINE.directory).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"), region_files.opened(tmp_path, MINE, writable=True):
        raise AssertionError("it was opened")


def test_a_flooded_directory_is_not_read_to_its_end(tmp_path: Path) -> None:
    place = folder(tmp_path)
    for number in range(region_files.ENTRIES_MOST + 5):
        (place / f"junk-{number}").touch()
    write(place / "a.cache", content())
    assert problem(tmp_path) == "several_files"

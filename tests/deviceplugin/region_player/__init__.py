"""A C program that has the shared region as its library has it: see player.c."""

from __future__ import annotations

from pathlib import Path

from tests.deviceplugin import compiled

_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-D_GNU_SOURCE")


def build() -> Path:
    """The program."""
    return compiled.made("player", (Path(__file__).parent / "player.c",), _FLAGS)

"""Commands that make things up work in a demonstration only."""

from __future__ import annotations

import io
import pathlib

import pytest
from django.core.management import CommandError, call_command

from accounting.models import LoginLink, User
from hami_platform import env, env_values

pytestmark = pytest.mark.django_db


def test_a_real_installation_is_not_filled(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CommandError, match="HAMI_DEMO is off"):
        call_command("demo_fill", str(tmp_path / "scenario.json"), links=str(tmp_path / "links"))


def test_a_real_installation_gives_no_sign_in_links() -> None:
    User.objects.create_user("alice")
    with pytest.raises(CommandError, match="HAMI_DEMO is off"):
        call_command("login_link", "alice")
    assert not LoginLink.objects.exists()


def test_a_link_is_for_a_person_that_is_there() -> None:
    with env.override(demo=True), pytest.raises(CommandError, match="there is no active user nobody"):
        call_command("login_link", "nobody")


def test_the_secret_of_a_printed_link_is_stored_as_a_hash_only() -> None:
    User.objects.create_user("alice")
    said = io.StringIO()
    with env.override(demo=True, web_bind=env_values.Address("127.0.0.1", 8801)):
        call_command("login_link", "alice", stdout=said)
    where, _, secret = said.getvalue().strip().rpartition("/")
    assert where == "http://127.0.0.1:8801/login"
    assert secret not in LoginLink.objects.get().secret_hash

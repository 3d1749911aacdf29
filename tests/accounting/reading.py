"""People who read pages of the console, and what they read."""

from __future__ import annotations

import re

from django.test import Client
from django.urls import reverse

from accounting import models
from accounting.services import people


def person(role: str, **scope: str) -> Client:
    """Ann, signed in, with one more role."""
    user, _ = models.User.objects.get_or_create(username="ann")
    people.role_grant(role=role, user="ann", reason="set up", actor="root", **scope)
    client = Client()
    client.force_login(user)
    return client


def text_of(client: Client, page: str, *args: str, **query: str) -> str:
    """The page's source with plain blanks and without its tokens, which at random hold any short word."""
    answer = client.get(reverse(f"console:{page}", args=args), query)
    assert answer.status_code == 200, answer
    source = re.sub(r'(name="csrfmiddlewaretoken" value=")\w+', r"\1", answer.content.decode())
    return re.sub(r"\s+", " ", source.replace("\u202f", " "))

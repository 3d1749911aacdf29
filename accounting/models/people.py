"""People, what they may do where, and the tokens and keys with which scripts act for them."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models import Q
from knox.models import AbstractAuthToken

from accounting.models.tenancy import Namespace, Tenant


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox names its reverse side at run time
    """A person. Ours from the first migration, so that it can grow."""

    language = models.CharField(max_length=16, blank=True, help_text="Language of pages; empty: the browser's.")


class Role(models.Model):
    """A user or group may do something in a tenant, a namespace, or everywhere (both empty)."""

    class Name(models.TextChoices):
        VIEWER = "viewer"
        MEMBER = "member"
        TENANT_ADMIN = "tenant-admin", "tenant admin"
        OPERATOR = "operator"
        AUDITOR = "auditor"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    group = models.ForeignKey(Group, null=True, blank=True, on_delete=models.CASCADE, related_name="roles")
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="roles")
    namespace = models.ForeignKey(Namespace, null=True, blank=True, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(max_length=16, choices=Name)

    class Meta:
        ordering = ("role", "id")
        constraints = (
            models.CheckConstraint(
                name="role_has_one_subject",
                condition=Q(user__isnull=False, group__isnull=True) | Q(user__isnull=True, group__isnull=False),
            ),
            models.CheckConstraint(
                name="role_has_one_scope", condition=Q(tenant__isnull=True) | Q(namespace__isnull=True)
            ),
        )

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.role} of {self.tenant or self.namespace or 'everything'}"


class ApiToken(AbstractAuthToken):
    """A hashed, expiring token of a person or a node agent. It may never do more than its user; what is not empty
    narrows it further."""

    name = models.CharField(max_length=100, blank=True)
    scopes = models.JSONField(default=list, blank=True, help_text="read, write, agent. Empty: all its user may.")
    roles = models.JSONField(default=list, blank=True, help_text="Only these of its user's roles count. Empty: all.")
    namespaces = models.JSONField(default=list, blank=True, help_text="Only these namespaces. Empty: all.")
    networks = models.JSONField(
        default=list, blank=True, help_text="Networks it may be used from, as 10.0.0.0/8. Empty: all."
    )


class IdempotencyKey(models.Model):
    """The answer given to a write with an Idempotency-Key, so that a repeat gets the same answer and writes nothing."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.JSONField(default=dict, null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_once"),)

    def __str__(self) -> str:
        return self.key


class LoginLink(models.Model):
    """A one-time link that signs a person in. Only its hash is stored; loopback and demonstrations only."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    secret_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-expires_at",)

    def __str__(self) -> str:
        return f"login link for {self.user} until {self.expires_at}"

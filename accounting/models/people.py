"""People, what they may do where, and the tokens and keys with which scripts act for them."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken

from accounting.models.tenancy import Namespace, Tenant


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox names its reverse side at run time
    """A person. Ours from the first migration, so that it can grow."""

    language = models.CharField(
        verbose_name=_("language"), max_length=16, blank=True, help_text=_("Language of pages; empty: the browser's.")
    )


class Role(models.Model):
    """A user or group may do something in a tenant, a namespace, or everywhere (both empty)."""

    class Name(models.TextChoices):
        VIEWER = "viewer", _("viewer")
        MEMBER = "member", _("member")
        TENANT_ADMIN = "tenant-admin", _("tenant admin")
        OPERATOR = "operator", _("operator")
        AUDITOR = "auditor", _("auditor")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="roles",
    )
    group = models.ForeignKey(
        Group, verbose_name=_("group"), null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    tenant = models.ForeignKey(
        Tenant, verbose_name=_("tenant"), null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    namespace = models.ForeignKey(
        Namespace, verbose_name=_("namespace"), null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    role = models.CharField(verbose_name=_("role"), max_length=16, choices=Name)

    class Meta:
        verbose_name = _("role")
        verbose_name_plural = _("roles")
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
        return f"{self.user or self.group} · {self.role} · {self.tenant or self.namespace or '*'}"


class ApiToken(AbstractAuthToken):
    """A hashed, expiring token of a person or a node agent. It may never do more than its user; what is not empty
    narrows it further."""

    name = models.CharField(verbose_name=_("name"), max_length=100, blank=True)
    scopes = models.JSONField(
        verbose_name=_("scopes"), default=list, blank=True, help_text=_("read, write, agent. Empty: all its user may.")
    )
    roles = models.JSONField(
        verbose_name=_("roles"),
        default=list,
        blank=True,
        help_text=_("Only these of its user's roles count. Empty: all."),
    )
    namespaces = models.JSONField(
        verbose_name=_("namespaces"), default=list, blank=True, help_text=_("Only these namespaces. Empty: all.")
    )
    networks = models.JSONField(
        verbose_name=_("networks"),
        default=list,
        blank=True,
        help_text=_("Networks it may be used from, as 10.0.0.0/8. Empty: all."),
    )

    class Meta(AbstractAuthToken.Meta):
        abstract = False
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")


# knox names its columns in English only.
ApiToken._meta.get_field("token_key").verbose_name = _("begins with")
ApiToken._meta.get_field("created").verbose_name = _("created at")
ApiToken._meta.get_field("expiry").verbose_name = _("expires at")
ApiToken._meta.get_field("user").verbose_name = _("user")


class IdempotencyKey(models.Model):
    """The answer given to a write with an Idempotency-Key, so that a repeat gets the same answer and writes nothing."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("user"), on_delete=models.CASCADE, related_name="+"
    )
    key = models.CharField(verbose_name=_("key"), max_length=128)
    request_hash = models.CharField(verbose_name=_("request hash"), max_length=64)
    status = models.PositiveSmallIntegerField(verbose_name=_("status"))
    body = models.JSONField(verbose_name=_("body"), default=dict, null=True)
    created_at = models.DateTimeField(verbose_name=_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_once"),)

    def __str__(self) -> str:
        return self.key


class LoginLink(models.Model):
    """A one-time link that signs a person in. Only its hash is stored; loopback and demonstrations only."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("user"), on_delete=models.CASCADE, related_name="+"
    )
    secret_hash = models.CharField(verbose_name=_("secret hash"), max_length=64, unique=True)
    expires_at = models.DateTimeField(verbose_name=_("expires at"))
    used_at = models.DateTimeField(verbose_name=_("used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("login link")
        verbose_name_plural = _("login links")
        ordering = ("-expires_at",)

    def __str__(self) -> str:
        return f"login link for {self.user} until {self.expires_at}"

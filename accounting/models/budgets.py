"""Budgets: how much use of devices a namespace or a tenant plans for a month, a quarter or some days."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from accounting.models.base import LedgerModel
from accounting.models.clusters import Cluster
from accounting.models.tenancy import Namespace, Tenant


class Budget(LedgerModel):
    """Device hours, money, or both, that one namespace or one tenant means to use in a period. It informs and refuses
    nothing. Empty amount: none is planned. 0: nothing is."""

    class Period(models.TextChoices):
        MONTH = "month", _("every month")
        QUARTER = "quarter", _("every quarter")
        ONCE = "once", _("once, from a day to a day")

    cluster = models.ForeignKey(Cluster, verbose_name=_("cluster"), on_delete=models.PROTECT, related_name="budgets")
    name = models.SlugField(verbose_name=_("name"), max_length=63, default="default")
    namespace = models.ForeignKey(
        Namespace,
        verbose_name=_("namespace"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="budgets",
    )
    tenant = models.ForeignKey(
        Tenant, verbose_name=_("tenant"), null=True, blank=True, on_delete=models.PROTECT, related_name="budgets"
    )
    vendor = models.CharField(
        verbose_name=_("vendor"),
        max_length=32,
        blank=True,
        help_text=_("Count only this vendor's devices. Empty: every vendor."),
    )
    model_pattern = models.CharField(
        verbose_name=_("model pattern"),
        max_length=128,
        blank=True,
        help_text=_("Count only models that match, for example *A100*. Empty: every model."),
    )
    period = models.CharField(verbose_name=_("period"), max_length=8, choices=Period, default=Period.MONTH)
    first_day = models.DateField(
        verbose_name=_("first day"), null=True, blank=True, help_text=_("Of a budget for once; UTC.")
    )
    last_day = models.DateField(
        verbose_name=_("last day"), null=True, blank=True, help_text=_("Included; of a budget for once.")
    )
    device_hours = models.PositiveBigIntegerField(
        verbose_name=_("device hours"),
        null=True,
        blank=True,
        help_text=_("Hours of whole devices: four quarters of one for an hour are one."),
    )
    amount = models.DecimalField(
        verbose_name=_("amount of money"),
        max_digits=14,
        decimal_places=2,
        null=True,
        blank=True,
        help_text=_("Counted by the prices of each day."),
    )
    currency = models.CharField(
        verbose_name=_("currency"),
        max_length=3,
        blank=True,
        help_text=_("Of the amount, for example EUR. Use with a price in another currency is left out."),
    )
    reason = models.TextField(verbose_name=_("reason"), help_text=_("Why this budget; required at every change."))
    version = models.PositiveIntegerField(
        verbose_name=_("version"),
        default=1,
        editable=False,
        help_text=_("Rises with each change: detects lost updates."),
    )

    history = HistoricalRecords(history_change_reason_field=models.TextField(blank=False))

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        ordering = ("cluster", "tenant__name", "namespace__name", "name")
        constraints = (
            models.CheckConstraint(
                name="budget_has_one_scope",
                condition=Q(namespace__isnull=False, tenant__isnull=True)
                | Q(namespace__isnull=True, tenant__isnull=False),
            ),
            models.UniqueConstraint(
                fields=("cluster", "namespace", "name"),
                condition=Q(namespace__isnull=False),
                name="budget_once_per_namespace",
            ),
            models.UniqueConstraint(
                fields=("cluster", "tenant", "name"), condition=Q(tenant__isnull=False), name="budget_once_per_tenant"
            ),
        )

    def __str__(self) -> str:
        return f"{self.namespace or self.tenant}/{self.name}"

"""Quotas as spreadsheets: exported as they are, imported through the service, previewed before anything is written."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils.translation import gettext
from import_export import fields, resources, results, widgets

from accounting import amounts, ledger
from accounting.models import Namespace, Quota, Tenant
from accounting.services import quotas
from accounting.services.errors import InvalidInput
from hami_platform.domain.quota import Limits, Selector


class Undone(Exception):
    """Takes a previewed change back. Nobody's fault."""


class LedgerResource(resources.ModelResource):
    """A table whose rows are written by a service; a whole import is one revision, or nothing."""

    class Meta:
        use_transactions = False
        skip_unchanged = True
        report_skipped = True

    def write(self, instance: Any, *, reason: str, actor: str) -> Model:
        """Call the service that makes or changes the row."""
        raise NotImplementedError

    def import_data(self, dataset: Any, dry_run: bool = False, **kwargs: Any) -> results.Result:
        """As usual; when any row is refused, none is written."""
        if dry_run:
            return super().import_data(dataset, dry_run=True, **kwargs)
        found: results.Result | None = None
        try:
            with ledger.transaction(cause=f"{self._meta.model._meta.model_name}_import", actor=_actor(kwargs)):
                found = super().import_data(dataset, dry_run=False, **kwargs)
                if found.has_errors() or found.has_validation_errors():
                    raise Undone
        except Undone:
            pass
        return found

    def save_instance(self, instance: Any, is_create: bool, row: Any, **kwargs: Any) -> None:
        """Through the service. In a preview the change is made and taken back, so that it is refused as in earnest."""
        reason = str(row.get("reason") or "")
        try:
            if not kwargs.get("dry_run"):
                instance.pk = self.write(instance, reason=reason, actor=_actor(kwargs)).pk
                return
            with ledger.transaction(cause="import_preview"):
                self.write(instance, reason=reason, actor=_actor(kwargs))
                raise Undone
        except Undone:
            pass
        except InvalidInput as refusal:
            raise ValidationError({refusal.field or "reason": refusal.told(gettext)}) from refusal


class ByName(widgets.Widget):
    """A namespace or tenant by its name; a namespace that nobody has seen yet is made with the quota."""

    def __init__(self, model: type[Namespace | Tenant], *, made: bool) -> None:
        super().__init__()
        self._model = model
        self._made = made

    def clean(self, value: Any, row: Any = None, **kwargs: Any) -> Namespace | Tenant | None:
        """The row of this name. Raises ValueError for an unknown one that must exist."""
        name = str(value or "").strip()
        if not name:
            return None
        cluster = ledger.cluster_id()
        found = self._model.objects.filter(cluster=cluster, name=name).first()
        if found is None and not self._made:
            kind = self._model._meta.verbose_name
            raise ValueError(gettext("there is no %(kind)s %(name)s") % {"kind": kind, "name": name})
        return found or self._model(cluster_id=cluster, name=name)

    def render(self, value: Any, obj: Any = None, **kwargs: Any) -> str:
        """Its name."""
        return value.name if value is not None else ""


class Mib(widgets.IntegerWidget):
    """MiB; a quantity of something else is answered with the number that was meant."""

    def clean(self, value: Any, row: Any = None, **kwargs: Any) -> int | None:
        """The number. Raises ValueError."""
        try:
            found: int | None = super().clean(value, row, **kwargs)
        except (ValueError, ArithmeticError) as fault:
            raise ValueError(amounts.hinted(value) or str(fault)) from fault
        return found


class QuotaResource(LedgerResource):
    """One line a quota: scope, name, limits (empty is none, 0 is nothing), which devices count, and the reason."""

    namespace = fields.Field("namespace", "namespace", ByName(Namespace, made=True))
    tenant = fields.Field("tenant", "tenant", ByName(Tenant, made=False))

    class Meta(LedgerResource.Meta):
        model = Quota
        fields = ("namespace", "tenant", "name", *Quota.LIMITS, "vendor", "model_pattern", "reason")
        import_id_fields = ("namespace", "tenant", "name")

    def before_import(self, dataset: Any, **kwargs: Any) -> None:
        """A table may leave out the scope that none of its lines has, and the name where it is the usual one."""
        for column, usual in (("namespace", ""), ("tenant", ""), ("name", "default")):
            if column not in (dataset.headers or ()):
                dataset.append_col([usual] * len(dataset), header=column)

    @classmethod
    def widget_from_django_field(cls, f: Any, default: Any = widgets.Widget) -> Any:
        """As usual, but for memory."""
        return Mib if f.name.endswith("_mib") else super().widget_from_django_field(f, default)

    def get_instance(self, instance_loader: Any, row: Any) -> Quota | None:
        """The quota of this name in this scope."""
        namespace, tenant = str(row.get("namespace") or "").strip(), str(row.get("tenant") or "").strip()
        rows = Quota.objects.select_related("namespace", "tenant").filter(cluster=ledger.cluster_id())
        scope = {"namespace__name": namespace} if namespace else {"tenant__name": tenant}
        return rows.filter(name=str(row.get("name") or "").strip(), **scope).first()

    def skip_row(self, instance: Any, original: Any, row: Any, import_validation_errors: Any = None) -> bool:
        """A line that differs in its reason only changes nothing."""
        same = all(
            getattr(instance, name) == getattr(original, name) for name in (*Quota.LIMITS, "vendor", "model_pattern")
        )
        return bool(instance.pk) and same and not import_validation_errors

    def write(self, instance: Quota, *, reason: str, actor: str) -> Model:
        """The quota as the line says; its validity stays."""
        return quotas.quota_set(
            namespace=instance.namespace.name if instance.namespace else "",
            tenant=instance.tenant.name if instance.tenant else "",
            name=instance.name,
            limits=Limits(**{name: getattr(instance, name) for name in Quota.LIMITS}),
            selector=Selector(instance.vendor or "", instance.model_pattern or ""),
            valid_from=instance.valid_from,
            valid_until=instance.valid_until,
            reason=reason,
            actor=actor,
        )


def _actor(kwargs: dict[str, Any]) -> str:
    user = kwargs.get("user")
    return user.get_username() if user is not None else ""

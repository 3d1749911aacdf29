"""Budgets over REST: read with how they stand, set, change, take away; their burn-down, and who used them.

Every write is the service's, with a reason.
"""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import lists, rows, serializers
from accounting.api.base import Endpoint
from accounting.models import Budget
from accounting.selectors import budgets as selectors
from accounting.selectors import burndown
from accounting.selectors.budgets import Standing
from accounting.services import attempts, budgets
from accounting.services.budgets import Plan
from hami_platform.domain.budgets import Period
from hami_platform.domain.quota import Selector

PLAN: Final = ("device_hours", "amount", "currency", "period", "first_day", "last_day")
PLAIN: Final = ("vendor", "model_pattern", *PLAN)
BLANK: Final[dict[str, Any]] = {
    **dict.fromkeys(PLAIN),
    **dict.fromkeys(("vendor", "model_pattern", "currency"), ""),
    "period": Budget.Period.MONTH,
}


class ForecastShape(drf.Serializer[Any]):
    """What use comes to by the end of the period: at the mean of the last days, and one standard deviation around."""

    low = drf.FloatField()
    middle = drf.FloatField()
    high = drf.FloatField()


class BurnShape(drf.Serializer[Any]):
    """One amount of a budget, in its unit: device hours or whole units of a currency."""

    unit = drf.CharField(help_text="device_hours, or a currency.")
    limit = drf.FloatField()
    used = drf.FloatField(help_text="Rounded; the exact amount is beside it.")
    used_us = drf.IntegerField(allow_null=True, help_text="Microseconds of whole devices; null for money.")
    used_cents = drf.IntegerField(allow_null=True, help_text="null for device hours.")
    left = drf.FloatField()
    over = drf.FloatField()
    percent = drf.IntegerField(help_text="Used per hundred, rounded down.")
    state = drf.ChoiceField(choices=("", "nearly", "spent"), help_text="nearly from 80 per hundred on.")
    day_mean = drf.FloatField(allow_null=True, help_text="Of the last known_days whole days; null: none is known.")
    day_deviation = drf.FloatField(allow_null=True, help_text="Standard deviation of these days.")
    known_days = drf.IntegerField()
    forecast = ForecastShape(allow_null=True)
    spent_earliest = drf.DateTimeField(allow_null=True, help_text="null: not in this period.")
    spent_likely = drf.DateTimeField(allow_null=True)
    spent_latest = drf.DateTimeField(allow_null=True)


class BudgetShape(drf.ModelSerializer[Budget]):
    """A budget and how it stands in its period. null: nothing is planned of that; 0: nothing may be used."""

    namespace = drf.CharField(source="namespace.name", default=None, allow_null=True)
    tenant = drf.CharField(source="tenant.name", default=None, allow_null=True)
    since = drf.SerializerMethodField(help_text="The period that runs begins.")
    until = drf.SerializerMethodField(help_text="It ends before this.")
    summed_at = drf.SerializerMethodField(help_text="Until when use is summed up; null: never.")
    unpriced = drf.SerializerMethodField(help_text="Models that are used and have no price in the currency.")
    simulated = drf.SerializerMethodField(help_text="Some of the use is made up for a demonstration.")
    burns = drf.SerializerMethodField(help_text="A row for each amount that is planned; none in answers to writes.")

    class Meta:
        model = Budget
        fields = (
            "id", "namespace", "tenant", "name", *PLAIN, "version", "reason",
            "since", "until", "summed_at", "unpriced", "simulated", "burns",
        )  # fmt: skip

    @extend_schema_field(drf.DateTimeField())
    def get_since(self, row: Budget) -> Any:
        """Of the period that runs."""
        return self._period(row).since

    @extend_schema_field(drf.DateTimeField())
    def get_until(self, row: Budget) -> Any:
        """Of the period that runs."""
        return self._period(row).until

    @extend_schema_field(drf.DateTimeField(allow_null=True))
    def get_summed_at(self, row: Budget) -> Any:
        """By the worker."""
        return getattr(self._of(row), "at", None)

    @extend_schema_field(drf.ListField(child=drf.CharField()))
    def get_unpriced(self, row: Budget) -> Any:
        """Left out of the money."""
        return list(getattr(self._of(row), "unpriced", ()))

    @extend_schema_field(drf.BooleanField())
    def get_simulated(self, row: Budget) -> Any:
        """In a demonstration."""
        return bool(getattr(self._of(row), "simulated", False))

    @extend_schema_field(BurnShape(many=True))
    def get_burns(self, row: Budget) -> Any:
        """Device hours, then money."""
        return [selectors.plain(burn) for burn in getattr(self._of(row), "burns", ())]

    def _period(self, row: Budget) -> Period:
        standing = self._of(row)
        return standing.period if standing else selectors.period_now(row)

    def _of(self, row: Budget) -> Standing | None:
        """None: it was just written, under the ledger's lock, where nobody sums up."""
        found: Standing | None = self.context.get("standings", {}).get(row.pk)
        return found


class BudgetChange(drf.Serializer[Any]):
    """What a budget is set to. In PATCH what is left out stays; in PUT nothing is planned of it."""

    device_hours = drf.IntegerField(required=False, allow_null=True, min_value=0, max_value=budgets.HOURS_MOST)
    amount = drf.DecimalField(max_digits=14, decimal_places=2, min_value=0, required=False, allow_null=True)
    currency = drf.RegexField("^([A-Za-z]{3})?$", required=False, allow_blank=True)
    period = drf.ChoiceField(choices=Budget.Period.choices, required=False)
    first_day = drf.DateField(required=False, allow_null=True)
    last_day = drf.DateField(required=False, allow_null=True, help_text="Included.")
    vendor = drf.CharField(required=False, allow_blank=True, max_length=32)
    model_pattern = drf.CharField(required=False, allow_blank=True, max_length=128)
    reason = drf.CharField(max_length=2000, help_text="Why; kept in the history.")
    version = drf.IntegerField(
        required=False, allow_null=True, min_value=0, help_text="The version you saw: refused with 409 if another."
    )


class BudgetNew(BudgetChange):
    """A new budget: of one namespace or one tenant."""

    namespace = drf.CharField(required=False, allow_blank=True, max_length=63, default="")
    tenant = drf.CharField(required=False, allow_blank=True, max_length=63, default="")
    name = drf.SlugField(max_length=63, default="default")


class PointShape(drf.Serializer[Any]):
    """What is left of one amount at a time. `left` is null for times to come, the forecast for those that passed."""

    unit = drf.CharField()
    at = drf.DateTimeField()
    even = drf.FloatField(help_text="At an even pace over the whole period.")
    left = drf.FloatField(allow_null=True, help_text="Below 0: over the budget.")
    low = drf.FloatField(allow_null=True)
    middle = drf.FloatField(allow_null=True)
    high = drf.FloatField(allow_null=True)


class BudgetHolderShape(drf.Serializer[Any]):
    """What one namespace, owner or model used of a budget; fields that the row does not tell apart are empty."""

    namespace = drf.CharField()
    owner = drf.CharField()
    vendor = drf.CharField()
    model = drf.CharField()
    device_us = drf.IntegerField(help_text="Microseconds of whole devices.")
    cents = drf.IntegerField(allow_null=True, help_text="In the budget's currency; null: it counts no money.")


class BudgetFilter(filters.FilterSet):
    """By scope, name and period."""

    namespace = filters.CharFilter(field_name="namespace__name")
    tenant = filters.CharFilter(field_name="tenant__name")

    class Meta:
        model = Budget
        fields = ("name", "period", "vendor", "model_pattern")


@extend_schema_view(get=extend_schema(operation_id="budgets"))
class BudgetsEndpoint(lists.ListEndpoint):
    """Budgets that the caller may see, with what is used of them and when they will be spent. They refuse nothing."""

    serializer_class = BudgetShape
    queryset = Budget.objects.none()
    filterset_class = BudgetFilter
    search_fields = ("name", "namespace__name", "tenant__name", "reason")
    ordering_fields = ("name", "device_hours", "amount", "period")
    file_name = "budgets"
    asked = ()

    def get_queryset(self) -> Any:
        return selectors.visible(self.reach)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "standings": _standings(self)}

    @extend_schema(operation_id="budget_add", request=BudgetNew, responses={201: BudgetShape})
    def post(self, request: Request) -> Response:
        """Set a new budget; 409 if there is one of this name already."""
        form = BudgetNew(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        if not self.reach.sets_quota(data["namespace"] or None):
            raise PermissionDenied("you may not set this budget")

        def act() -> attempts.Answer:
            scope = {name: data[name] for name in ("namespace", "tenant", "name")}
            row = _set(self, data | {"version": 0}, BLANK | data, scope, None)
            self.state = str(row.version)
            return attempts.Answer(201, _shown(row))

        return self.written(act, cause="budget_set")


class BudgetEndpoint(Endpoint):
    """One budget."""

    asked = ()

    @extend_schema(operation_id="budget", responses=BudgetShape)
    def get(self, request: Request, budget_id: int) -> Response:
        """By id."""
        row = _one(self, budget_id)
        self.state = str(row.version)
        return Response(_shown(row, {row.pk: _standing(self, row)}))

    @extend_schema(operation_id="budget_change", request=BudgetChange, responses=BudgetShape)
    def patch(self, request: Request, budget_id: int) -> Response:
        """Change what is named; the rest stays."""
        return self._write(request, budget_id, keep=True)

    @extend_schema(operation_id="budget_set", request=BudgetChange, responses=BudgetShape)
    def put(self, request: Request, budget_id: int) -> Response:
        """Set all of it; of what is not named, nothing is planned."""
        return self._write(request, budget_id, keep=False)

    @extend_schema(operation_id="budget_delete", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, budget_id: int) -> Response:
        """Take it away; its history stays."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            row = _writable(self, budget_id)
            self.matched(str(row.version))
            budgets.budget_delete(budget_id=row.pk, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.written(act, cause="budget_delete")

    def _write(self, request: Request, budget_id: int, *, keep: bool) -> Response:
        form = BudgetChange(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data

        def act() -> attempts.Answer:
            row = _writable(self, budget_id)
            if data.get("version") is None or "If-Match" in request.headers:
                self.matched(str(row.version))
            base = {name: getattr(row, name) for name in PLAIN} if keep else BLANK
            scope = {"namespace": row.namespace.name if row.namespace else "", "name": row.name}
            scope["tenant"] = row.tenant.name if row.tenant else ""
            changed = _set(self, data, base | data, scope, row.pk)
            self.state = str(changed.version)
            return attempts.Answer(200, _shown(changed))

        return self.written(act, cause="budget_set")


@extend_schema_view(get=extend_schema(operation_id="budget_burndown"))
class BurnDownEndpoint(lists.LinesEndpoint):
    """What was left of each amount from the period's start, and where it goes until its end."""

    serializer_class = PointShape
    file_name = "burndown"
    asked = ()

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """At most some hundred for each amount."""
        standing = _standing(self, _one(self, self.kwargs["budget_id"]))
        found = [
            {"unit": line.burn.unit, **{name: getattr(point, name) for name in point.__slots__}}
            for line in burndown.burndowns(standing)
            for point in line.points
        ]
        return found[first : None if most is None else first + most], len(found)


@extend_schema_view(
    get=extend_schema(
        operation_id="budget_holders",
        parameters=[OpenApiParameter("by", str, enum=burndown.BY, description="Default: namespace.")],
    )
)
class HoldersEndpoint(lists.LinesEndpoint):
    """Who used a budget in its period, most first. The rows come to what is used, to the microsecond and the cent."""

    serializer_class = BudgetHolderShape
    file_name = "budget-holders"
    asked = ("by",)

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """By namespace, owner or model."""
        by = lists.choice(self.request, "by", burndown.BY) or "namespace"
        standing = _standing(self, _one(self, self.kwargs["budget_id"]))
        found = [_holder(one, by) for one in burndown.holders(standing, by)]
        return found[first : None if most is None else first + most], len(found)


def _holder(one: burndown.Holder, by: str) -> dict[str, Any]:
    named = dict(zip({"model": ("vendor", "model")}.get(by, ("namespace", "owner")), one.parts, strict=False))
    return {"namespace": "", "owner": "", "vendor": "", "model": "", **named, "device_us": one.card_us,
            "cents": one.cents}  # fmt: skip


def _set(endpoint: Endpoint, data: dict[str, Any], values: dict[str, Any], scope: Any, pk: int | None) -> Budget:
    return budgets.budget_set(
        **scope,
        plan=Plan(**{name: values[name] for name in PLAN}),
        selector=Selector(values["vendor"], values["model_pattern"]),
        reason=data["reason"],
        actor=endpoint.actor,
        expected_version=data.get("version"),
        budget_id=pk,
    )


def _standings(endpoint: Endpoint) -> dict[int, Standing]:
    return {one.row.pk: one for one in selectors.standings(rows.view_now(), endpoint.reach)}


def _standing(endpoint: Endpoint, row: Budget) -> Standing:
    return selectors.of_rows(rows.view_now(), [row], endpoint.reach)[0]


def _shown(row: Budget, standings: dict[int, Standing] | None = None) -> dict[str, Any]:
    return dict(BudgetShape(row, context={"standings": standings or {}}).data)


def _one(endpoint: Endpoint, budget_id: int) -> Budget:
    row: Budget | None = selectors.visible(endpoint.reach).filter(pk=budget_id).first()
    if row is None:
        raise Http404(f"no budget {budget_id}")
    return row


def _writable(endpoint: Endpoint, budget_id: int) -> Budget:
    row = _one(endpoint, budget_id)
    if not selectors.may_set(row, endpoint.reach):
        raise PermissionDenied("you may not change this budget")
    return row

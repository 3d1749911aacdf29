"""The shapes of explanations and simulations, and of the questions that are asked. Units are in the names."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from accounting.services import scenarios, simulations

Shape = serializers.Serializer[Any]
NUMBER: dict[str, Any] = {"allow_null": True}


class CheckShape(Shape):
    """One check, in the order in which a pod meets them."""

    stage = serializers.CharField()
    ok = serializers.BooleanField(allow_null=True, help_text="null: not reached.")
    code = serializers.CharField(help_text="The reason word; empty for a passed check.")
    text = serializers.CharField()
    have = serializers.IntegerField(**NUMBER)
    need = serializers.IntegerField(**NUMBER)
    unit = serializers.CharField()
    scope = serializers.CharField(help_text="The quota, for example.")


class ReasonCount(Shape):
    """How many nodes refuse for this reason above all."""

    code = serializers.CharField()
    nodes = serializers.IntegerField()


class HolderShape(Shape):
    """Who holds what of a device; of other namespaces the amount only."""

    kind = serializers.CharField(help_text="pod or hold")
    name = serializers.CharField()
    uid = serializers.CharField()
    namespace = serializers.CharField()
    memory_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    slots = serializers.IntegerField()


class CardShape(Shape):
    """One device: what is free, what is needed, and what stands between."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    chosen = serializers.BooleanField()
    ok = serializers.BooleanField()
    code = serializers.CharField()
    memory_mib = serializers.IntegerField()
    free_mib = serializers.IntegerField()
    need_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    free_core_percent = serializers.IntegerField()
    need_core_percent = serializers.IntegerField()
    slots = serializers.IntegerField()
    free_slots = serializers.IntegerField()
    reserved_mib = serializers.IntegerField()
    holders = HolderShape(many=True)


class NodeLineShape(Shape):
    """One node; those on which the least is missing come first."""

    node = serializers.CharField()
    ok = serializers.BooleanField()
    code = serializers.CharField()
    text = serializers.CharField(help_text="Devices per reason, as HAMi writes it.")
    devices_needed = serializers.IntegerField()
    devices_good = serializers.IntegerField()
    devices = CardShape(many=True)


class StepShape(Shape):
    """One thing to do."""

    kind = serializers.CharField()
    action = serializers.CharField()
    role = serializers.CharField(help_text="owner, tenant admin or operator")
    value = serializers.IntegerField(help_text="The new amount, where there is one.", **NUMBER)
    may = serializers.BooleanField(help_text="Whether you may do it at `url`.")
    url = serializers.CharField()
    command = serializers.CharField(help_text="What to type, or the line of the manifest.")


class FixShape(Shape):
    """A change that was tried on a copy: with all of its steps the pod is placed."""

    steps = StepShape(many=True)
    effect = serializers.CharField()
    node = serializers.CharField()
    devices = serializers.ListField(child=serializers.CharField())


class PositionShape(Shape):
    """Place in the order in which waiting pods are woken; 1 is next."""

    place = serializers.IntegerField()
    of = serializers.IntegerField()
    place_in_namespace = serializers.IntegerField()
    of_namespace = serializers.IntegerField()


class ShareShape(Shape):
    """What one container would get of one device."""

    container = serializers.CharField()
    uuid = serializers.CharField()
    memory_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    mig = serializers.CharField()


class PlacementShape(Shape):
    """Where it would go."""

    node = serializers.CharField()
    shares = ShareShape(many=True)


class ExplanationShape(Shape):
    """Why a pod waits, and what would make it run."""

    uid = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    state = serializers.CharField()
    asks = serializers.CharField()
    verdict = serializers.ChoiceField(
        choices=(
            "fits", "blocked_by_quota", "no_fit_now", "never_fits", "waiting_for_bind", "not_ours", "healthy",
        )
    )  # fmt: skip
    headline = serializers.CharField()
    summary = serializers.CharField(help_text="Nodes per reason, in one line.")
    revision = serializers.IntegerField(help_text="Of the ledger, at which this was answered.")
    checks = CheckShape(many=True)
    reasons = ReasonCount(many=True)
    candidates = serializers.IntegerField()
    nodes = NodeLineShape(many=True)
    nodes_left_out = serializers.IntegerField()
    placement = PlacementShape(allow_null=True)
    fixes = FixShape(many=True)
    position = PositionShape(allow_null=True)
    evaluated_at = serializers.DateTimeField()
    first_pending_at = serializers.DateTimeField(allow_null=True)
    age_s = serializers.IntegerField(**NUMBER)
    last_refused_at = serializers.DateTimeField(allow_null=True)
    last_refused_for = serializers.CharField()


class EffectPodShape(Shape):
    """A pod that the change concerns."""

    uid = serializers.CharField()
    key = serializers.CharField(help_text="uid, or claim id.")
    namespace = serializers.CharField()
    name = serializers.CharField()
    asks = serializers.CharField()


class PlacedShape(EffectPodShape):
    """A pod that would be placed."""

    node = serializers.CharField()
    devices = serializers.ListField(child=serializers.CharField())


class StrandedShape(EffectPodShape):
    """A pod that would not."""

    why = serializers.CharField()


class OverShape(Shape):
    """A limit that would be exceeded by what is used already."""

    rule = serializers.CharField()
    resource = serializers.CharField()
    limit = serializers.IntegerField()
    used = serializers.IntegerField()
    over = serializers.IntegerField()


class EffectShape(Shape):
    """What the changes would do to the pods of today. Lists hold what you may see; counts hold all."""

    starts = PlacedShape(many=True)
    strands = StrandedShape(many=True)
    moves = PlacedShape(many=True)
    homeless = StrandedShape(many=True)
    starts_count = serializers.IntegerField()
    strands_count = serializers.IntegerField()
    moves_count = serializers.IntegerField()
    homeless_count = serializers.IntegerField()
    over = OverShape(many=True)
    hidden = serializers.IntegerField()
    waiting = serializers.IntegerField()
    tried = serializers.IntegerField()
    revision = serializers.IntegerField()


class SimulationShape(Shape):
    """The answer to a question of what if. Nothing was written."""

    problem = serializers.CharField(help_text="Why admission denies the pod, or leaves it alone; empty: neither.")
    fits = serializers.BooleanField(allow_null=True, help_text="Whether all copies would be placed. null: no pod.")
    explanation = ExplanationShape(allow_null=True)
    copies = serializers.ListField(child=serializers.CharField(), help_text="The node of each copy that is placed.")
    effect = EffectShape(allow_null=True)


class WishShape(Shape):
    """A pod by its amounts."""

    devices = serializers.IntegerField(default=1, min_value=1, max_value=1024)
    memory_mib = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=2**31 - 1)
    memory_percent = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=100)
    core_percent = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=100)
    model = serializers.CharField(required=False, allow_blank=True, default="", max_length=128)
    vendor = serializers.CharField(required=False, default="NVIDIA", max_length=32)
    priority = serializers.IntegerField(required=False, default=0, min_value=-(2**31), max_value=2**31 - 1)


class SimulateAsk(Shape):
    """A pod (one of `ask`, `pod`, `manifest`), changes of the cluster, or both."""

    namespace = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=63, help_text="Empty: the manifest's, else `default`."
    )
    ask = WishShape(required=False, allow_null=True, default=None)
    pod = serializers.DictField(required=False, allow_null=True, default=None, help_text="A Pod object.")
    manifest = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=simulations.MANIFEST_MAX,
        help_text="YAML or JSON of a Pod, or of anything with a pod template.",
    )  # fmt: skip
    copies = serializers.IntegerField(required=False, default=1, min_value=1, max_value=simulations.MOST_COPIES)
    changes = serializers.ListField(
        child=serializers.DictField(), required=False, default=list, max_length=scenarios.MOST_CHANGES,
        help_text=f"Objects with `kind`: {', '.join(scenarios.KINDS)}.",
    )  # fmt: skip

"""A page to ask what would happen if: a pod by its amounts or its manifest, and a change of limits, nodes or devices.

Amounts stand in the address, so that a question can be sent to somebody; a manifest is posted. Nothing is written.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting.models import Quota
from accounting.pages import why
from accounting.pages.shell import console, frame, view_now
from accounting.selectors import access, freshness
from accounting.services import device_config, simulations
from accounting.services.errors import InvalidInput
from hami_platform.domain.rows import PodRow
from hami_platform.domain.sentences import phrase
from hami_platform.domain.view import View

CHANGES = (
    ("", _("nothing changes")),
    ("quota", _("a limit is another one")),
    ("nodes", _("nodes are added")),
    ("cordon", _("a node or device is cordoned")),
    ("uncordon", _("a node or device is uncordoned")),
    ("drain", _("a node is drained")),
    ("remove", _("a node is taken away")),
)
POD = ("namespace", "vendor", "devices", "memory_mib", "memory_percent", "core_percent", "model", "priority", "copies")
NAMESPACES_LISTED = 500


class SimulateForm(forms.Form):
    """A pod, a change, or both."""

    namespace = forms.CharField(label=_("Namespace"), max_length=63, required=False)
    vendor = forms.ChoiceField(label=_("Vendor"), required=False)
    devices = forms.IntegerField(label=_("Devices"), min_value=1, max_value=1024, required=False)
    memory_mib = forms.IntegerField(
        label=_("Memory on each, MiB"), min_value=1, max_value=2**31 - 1, required=False,
        help_text=_("16 GiB is 16384; empty: all of it"),
    )  # fmt: skip
    memory_percent = forms.IntegerField(label=_("or memory, %"), min_value=1, max_value=100, required=False)
    core_percent = forms.IntegerField(label=_("Cores of each, %"), min_value=0, max_value=100, required=False)
    model = forms.CharField(label=_("Model contains"), max_length=128, required=False)
    priority = forms.IntegerField(label=_("Priority"), min_value=-(2**31), max_value=2**31 - 1, required=False)
    copies = forms.IntegerField(label=_("How many such pods"), min_value=1, max_value=64, required=False)
    change = forms.ChoiceField(label=_("What changes"), choices=CHANGES, required=False)
    scope = forms.CharField(
        label=_("Limit of"), max_length=190, required=False, help_text=_("namespace/name, or tenant:name/name")
    )
    limit = forms.ChoiceField(
        label=_("Which limit"),
        choices=[(one.name, one.verbose_name) for one in Quota._meta.fields if one.name in Quota.LIMITS],
        initial="memory_mib",
        required=False,
    )
    value = forms.IntegerField(
        label=_("is then"), min_value=0, max_value=2**53, required=False, help_text=_("empty: no limit")
    )
    count = forms.IntegerField(label=_("Nodes added"), min_value=1, max_value=1000, required=False)
    like = forms.CharField(label=_("like this node"), max_length=253, required=False)
    node = forms.CharField(label=_("Node"), max_length=253, required=False)
    uuid = forms.CharField(label=_("or device, by uuid"), max_length=128, required=False)
    manifest = forms.CharField(
        label=_("Manifest, YAML or JSON"), max_length=simulations.MANIFEST_MAX, required=False, strip=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
        help_text=_("a Pod, or anything with a pod template"),
    )  # fmt: skip

    def __init__(self, *args: Any, view: View, reach: access.Reach, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        words = [vendor.word for vendor in device_config.device_config().vendors]
        here = [word for word in words if word in view.kinds] or words
        self.fields["vendor"].choices = [(word, word) for word in here]  # type: ignore[attr-defined]
        names = sorted(name for name in view.namespaces if reach.sees(name))[:NAMESPACES_LISTED]
        self.fields["namespace"].widget.attrs["list"] = "namespaces"
        self.namespaces, self.nodes = names, sorted(view.states)[:NAMESPACES_LISTED]
        for name in ("like", "node"):
            self.fields[name].widget.attrs["list"] = "nodes"

    def group(self, *names: str) -> list[forms.BoundField]:
        """Some of the fields, as the page groups them."""
        return [self[name] for name in names]

    @property
    def pod_fields(self) -> list[forms.BoundField]:
        """What describes the pod."""
        return self.group(*POD)

    @property
    def quota_fields(self) -> list[forms.BoundField]:
        """What describes a limit."""
        return self.group("scope", "limit", "value")

    @property
    def node_group_fields(self) -> list[forms.BoundField]:
        """What describes new nodes."""
        return self.group("count", "like")

    def submitted(self) -> simulations.Submitted | None:
        """The pod asked about; None for none. Raises InvalidInput."""
        data = self.cleaned_data
        if data["manifest"].strip():
            return simulations.from_text(data["manifest"], data["namespace"])
        amounts = ("devices", "memory_mib", "memory_percent", "core_percent", "model")
        if all(data[name] in (None, "") for name in amounts):
            return None
        return simulations.from_wish(
            simulations.Wish(
                data["namespace"] or simulations.DEFAULT_NAMESPACE, data["devices"] or 1, data["memory_mib"],
                data["memory_percent"], data["core_percent"], data["model"], data["vendor"] or "NVIDIA",
                data["priority"] or 0,
            )
        )  # fmt: skip

    def changes(self) -> list[dict[str, Any]]:
        """The change as a scenario is read from; none where nothing changes. Raises InvalidInput."""
        data = self.cleaned_data
        kind = data["change"]
        if not kind:
            return []
        if kind == "quota":
            return [{"kind": kind, **_scope(data["scope"]), "limits": {data["limit"]: data["value"]}}]
        if kind == "nodes":
            return [{"kind": kind, "count": data["count"] or 1, "like": data["like"]}]
        return [{"kind": kind, "node": data["node"], "uuid": data["uuid"] if "cordon" in kind else ""}]


def _scope(text: str) -> dict[str, str]:
    word = "tenant" if text.startswith("tenant:") else "namespace"
    scope, _slash, name = text.removeprefix("tenant:").partition("/")
    if not scope:
        raise InvalidInput("scope", phrase("namespace/name, or tenant:name/name"))
    return {word: scope, "name": name or "default"}


@console
def simulate(request: HttpRequest) -> HttpResponse:
    """The form, and below it the answer to what is in it."""
    view, reach = view_now(), access.reach_for(request)
    given = request.POST if request.method == "POST" else request.GET
    asked = any(given.get(name) for name in (*POD, "change", "manifest") if name not in ("namespace", "vendor"))
    form = SimulateForm(given if asked else None, view=view, reach=reach, initial=_initial(view, reach, request))
    found = _answer(form, view, reach) if asked and form.is_valid() else None
    title = gettext("Simulate")
    context = {"form": form, "found": found, "reach": reach, "title": title, "posted": request.method == "POST"}
    status = 403 if found is None and asked and form.errors.get("__all__") else 200
    page = context | {"freshness": freshness.freshness(view)} | frame("simulate")
    return render(request, "console/simulate.html", page, status=status)


def _answer(form: SimulateForm, view: View, reach: access.Reach) -> dict[str, Any] | None:
    """What the page shows; None with an error in the form."""
    try:
        submitted, changes = form.submitted(), form.changes()
        if submitted is None and not changes:
            raise InvalidInput("devices", phrase("Name amounts of a pod, a manifest, or a change."))
        refused = simulations.unseen(view, reach, submitted, changes)
        if refused:
            form.add_error(None, refused)
            return None
        found = simulations.simulation(view, submitted, changes, copies=form.cleaned_data["copies"] or 1)
    except InvalidInput as fault:
        field = {"limits": "value", "kind": "change"}.get(fault.field.partition(".")[0], fault.field)
        form.add_error(field if field in form.fields else "change", fault.told(gettext))
        return None
    shown = simulations.shown(why.reader(view, reach), submitted, found)
    if shown["explanation"]:
        shown["explanation"] = why.shown(shown["explanation"])
    return shown | {"wanted": form.cleaned_data["copies"] or 1}


def _initial(view: View, reach: access.Reach, request: HttpRequest) -> dict[str, Any]:
    """An empty form; with `?like_pod=<uid>` the amounts of that pod."""
    row = view.pod(request.GET.get("like_pod", ""))
    start: dict[str, Any] = {"devices": 1, "copies": 1, "limit": "memory_mib"}
    if row is None or not reach.sees(row.namespace):
        names = sorted(name for name in view.namespaces if reach.sees(name))
        return start | {"namespace": names[0] if names else ""}
    return start | amounts_of(row)


def amounts_of(row: PodRow) -> dict[str, Any]:
    """The pod as the form describes one, as far as it can: the first request of the first container that asks."""
    ask = next((ask for container in row.request.containers for ask in container.devices), None)
    if ask is None:
        return {"namespace": row.namespace}
    models = row.request.constraints.of(ask.vendor).use_models
    return {
        "namespace": row.namespace, "vendor": ask.vendor, "devices": ask.count, "memory_mib": ask.memory_mib or None,
        "memory_percent": ask.memory_percent if ask.memory_mib <= 0 else None,
        "core_percent": ask.core_percent or None, "model": ", ".join(models or ()), "priority": row.priority or None,
    }  # fmt: skip

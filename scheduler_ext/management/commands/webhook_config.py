"""Prints the MutatingWebhookConfiguration for this installation, ready for `kubectl apply -f -`."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from hami_platform import certs, env
from hami_platform.domain.errors import ConfigError
from scheduler_ext import subject, webhook_config


class Command(BaseCommand):
    """`manage.py webhook_config --url https://… | --service NAME --namespace NS`."""

    help = "Print the webhook configuration that the API server needs, with its match conditions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Where the webhook is reached, whom to trust, and the form of the output."""
        parser.add_argument("--url", default="", help="https URL of the webhook, path included")
        parser.add_argument("--service", default="", help="name of its Service")
        parser.add_argument("--namespace", default="", help="namespace of the Service; default: this pod's")
        parser.add_argument("--port", type=int, default=443, help="port of the Service")
        parser.add_argument("--ca-file", default="", help="PEM of the authority; default: the self-made one")
        parser.add_argument("--no-ca", action="store_true", help="leave caBundle out: something else injects it")
        parser.add_argument("--name", default=webhook_config.NAME, help="metadata.name of the object")
        parser.add_argument("--format", choices=("yaml", "json"), default="yaml", dest="form")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print it. A missing file, endpoint or device configuration is named."""
        settings = env.current()
        try:
            endpoint = webhook_config.Endpoint(
                url=options["url"],
                service=options["service"],
                namespace=options["namespace"] or (settings.pod_namespace if options["service"] else ""),
                port=options["port"],
                ca=b"" if options["no_ca"] else _ca(options["ca_file"]),
            )
            made = webhook_config.configuration(
                subject.subject(), endpoint, name=options["name"], pods_may_opt_out=settings.pod_webhook_ignore_label
            )
        except (OSError, ValueError, ConfigError) as error:
            raise CommandError(str(error)) from error
        text = json.dumps(made, indent=2) if options["form"] == "json" else yaml.safe_dump(made, sort_keys=False)
        self.stdout.write(text)


def _ca(file: str) -> bytes:
    """The authority given, or else the one that signs the listeners' self-made certificates."""
    settings = env.current()
    if file:
        return pathlib.Path(file).read_bytes()
    if settings.tls_cert_file:
        raise ValueError("--ca-file: needed, since HAMI_TLS_CERT_FILE is signed by an authority unknown here")
    return certs.authority(pathlib.Path(settings.state_dir).resolve() / "tls").cert.read_bytes()

"""Faults of the domain. A refusal ("does not fit") is a value, never one of these."""

from __future__ import annotations


class DomainError(Exception):
    """Base of every fault the domain raises."""


class InvalidQuantity(DomainError):
    """A text that is not a Kubernetes quantity, or not one of the kind asked for. The writer's fault."""


class WireError(DomainError):
    """An annotation, written by another program or person, that cannot be decoded.

    `field` names the part that is wrong ("slot 1, device 0: memory"), so that a person can find it.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class RequestError(DomainError):
    """A pod that asks for something impossible or ambiguous. The pod author's fault.

    `container` and `key` name the place; the message is meant for people.
    """

    def __init__(self, message: str, *, container: str = "", key: str = "") -> None:
        super().__init__(message)
        self.container = container
        self.key = key


class ConfigError(DomainError):
    """A device configuration that cannot be used. The operator's fault; `str()` names the key."""

"""Accounts: users of the identity provider, by what the provider states about them."""

from __future__ import annotations

import hashlib


def account_id(tenant: str, subject: str) -> str:
    """Return the id of a user of the identity provider. Rate limits count requests by this id and not by token, because
    tokens are short-lived."""
    digest = hashlib.sha256(f"{tenant}\0{subject}".encode()).hexdigest()
    return f"t_{digest[:28]}"

"""The operations desk: every row of the ledger, and every change of it through a service.

`site` is what the URLs mount. Importing this package registers everything.
"""

from __future__ import annotations

from accounting.admin import budgets, inventory, people, pods, records, tenancy, usage
from accounting.admin.console import site

__all__ = ["budgets", "inventory", "people", "pods", "records", "site", "tenancy", "usage"]

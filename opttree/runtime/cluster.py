"""The Dask cluster that joblib's back end names."""

from __future__ import annotations

from typing import Any


def client() -> Any:
    """The client of the cluster, if Dask's is joblib's active back end; else None."""
    from joblib.parallel import get_active_backend

    return getattr(get_active_backend()[0], "client", None)

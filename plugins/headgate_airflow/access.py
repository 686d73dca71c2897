"""Who may see and change which stream: the rights on the stream's planning DAG decide."""

from __future__ import annotations

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, Request
from fastapi.params import Depends as Dependency


def dag_of(stream: str) -> str:
    """Return the planning DAG of a stream."""
    return f"plan_{stream}"


def requires(method: ResourceMethod) -> Dependency:
    """Let a request through if its user may do ``method`` to the DAG of the stream in its path."""

    def check(stream: str, request: Request, user: GetUserDep) -> None:
        requires_access_dag(method, param_dag_id=dag_of(stream))(request, user)

    dependency: Dependency = Depends(check)
    return dependency


def may(user: BaseUser, method: ResourceMethod, stream: str) -> bool:
    """Whether the user may do ``method`` to the stream's DAG."""
    details = DagDetails(id=dag_of(stream))
    return bool(get_auth_manager().is_authorized_dag(method=method, details=details, user=user))

"""The examples in the plugin's docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytestmark = pytest.mark.airflow


MODULES = ["embedded", "form", "java", "lineage", "places", "texts", "views"]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"headgate_airflow.{module}"))
    assert result.attempted > 0
    assert result.failed == 0

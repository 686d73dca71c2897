"""The examples in the plugin's docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize("module", ["embedded", "form", "java", "texts", "views"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"headgate_airflow.{module}"))
    assert result.attempted > 0
    assert result.failed == 0

"""From a suite to what is enforced: one Spark filter over rows, and rules over the batch.

Row-level rules (``expect_column_values_…``) send single rows to quarantine, with the reasons.
Everything else is batch-level and judges the clean rows that are left. Only ``critical``
expectations are enforced; Great Expectations reports the others.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import expectations
from expectations.building import CHOICE, Expectation, Suite
from planning.errors import Mistake
from planning.samples import LARGEST, WRONG_TYPE, interval, listed
from planning.stages.batch_rules import ROW_RULE
from planning.streams import StreamDefinition

if TYPE_CHECKING:
    from pyspark.sql import Column

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
MATCH = "expect_column_values_to_match_regex"
ROW_TYPES = (NOT_NULL, BETWEEN, IN_SET, MATCH)
NOT_JSON = "not a JSON object"


def available() -> list[str]:
    """Return the names of the suites: the modules here that have a ``build_suite``."""
    modules = [module.name for module in pkgutil.iter_modules(expectations.__path__)]
    return sorted(name for name in modules if hasattr(_module(name), "build_suite"))


def suite_for(definition: StreamDefinition) -> Suite:
    """Return the suite that ``samples.expectations`` of the definition names."""
    name = definition.samples.expectations
    if name not in available():
        close = difflib.get_close_matches(name, available(), n=1)
        add = f"correct the name, or add expectations/{name}.py with a build_suite(definition)"
        remedy = f"did you mean {close[0]}? Otherwise {add}" if close else add
        allowed = f"one of {', '.join(available())}"
        raise Mistake("samples.expectations", allowed, repr(name), remedy, at=CHOICE)
    suite: Suite = _module(name).build_suite(definition)
    unknown = {e["type"] for e in suite["expectations"] if _is_row_type(e)} - set(ROW_TYPES)
    if unknown:
        field, allowed = f"row-level expectations of suite {name!r}", ", ".join(ROW_TYPES)
        raise Mistake(field, f"of the types {allowed}", ", ".join(sorted(unknown)), at=CHOICE)
    return suite


def resolve(suite: Suite, parameters: Mapping[str, float]) -> Suite:
    """Return the suite with every ``{"$PARAMETER": name}`` replaced by its value.

    >>> rule = {"type": "t", "kwargs": {"min_value": {"$PARAMETER": "oldest_s"}}}
    >>> resolve({"expectations": [rule]}, {"oldest_s": 5.0})["expectations"][0]["kwargs"]
    {'min_value': 5.0}
    """

    def value(given: Any) -> Any:
        named = isinstance(given, dict) and "$PARAMETER" in given
        return parameters[given["$PARAMETER"]] if named else given

    rules = [
        {**rule, "kwargs": {key: value(given) for key, given in rule["kwargs"].items()}}
        for rule in suite["expectations"]
    ]
    return {**suite, "expectations": rules}


def split(suite: Suite) -> tuple[list[Expectation], list[Expectation]]:
    """Return the row-level and the batch-level expectations of a suite."""
    rows = [e for e in suite["expectations"] if _is_row_type(e)]
    return rows, [e for e in suite["expectations"] if not _is_row_type(e)]


def tolerant(rules: Iterable[Expectation], share: float) -> list[Expectation]:
    """Return row-level rules that hold for a batch in which ``share`` of the rows break them."""
    return [{**rule, "kwargs": {**rule["kwargs"], "mostly": 1.0 - share}} for rule in rules]


def reasons(suite: Suite, raw: str, line: str) -> Column:
    """Return the Spark expression that lists why a row is quarantined; empty for a clean row.

    Parameters
    ----------
    suite
        The resolved suite.
    raw
        Name of the struct column with the values as they arrived, as texts.
    line
        Name of the column with the text of a line that is not a JSON object, else null.
    """
    from pyspark.sql import functions as F

    rules, _ = split(suite)
    broken: list[Column] = []
    for column, kind in suite["meta"]["columns"].items():
        came = F.col(raw).getField(column).isNotNull()
        broken.append(
            F.when(_col(column).isNull() & came, F.lit(f"{column} {WRONG_TYPE[kind]}"))
        )
    for rule in rules:
        if rule["severity"] == "critical":
            broken += [F.when(wrong, F.lit(text)) for wrong, text in _conditions(rule, raw)]
    reasons_given = F.array_distinct(F.filter(F.array(*broken), lambda reason: reason.isNotNull()))
    return F.when(F.col(line).isNotNull(), F.array(F.lit(NOT_JSON))).otherwise(reasons_given)


def _conditions(rule: Expectation, raw: str) -> list[tuple[Column, str]]:
    """Return when a row breaks the rule, and the reason given then; null breaks only NOT_NULL."""
    from pyspark.sql import functions as F

    kwargs = rule["kwargs"]
    name = kwargs["column"]
    column = _col(name)
    if rule["type"] == NOT_NULL:
        return [(column.isNull() & F.col(raw).getField(name).isNull(), f"{name} is missing")]
    if rule["type"] == IN_SET:
        values = kwargs["value_set"]
        return [(~column.isin(*values), f"{name} is not one of {listed(values)}")]
    if rule["type"] == MATCH:
        return [(~column.rlike(kwargs["regex"]), f"{name} does not match {kwargs['regex']}")]
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    low, high = -LARGEST if low is None else low, LARGEST if high is None else high
    # Spark orders NaN above every number, so this catches it together with the infinities.
    finite = column.between(-LARGEST, LARGEST)
    return [
        (~finite, f"{name} is not finite"),
        (finite & ~column.between(low, high), f"{name} is outside {interval(low, high)}"),
    ]


def _module(name: str) -> Any:
    return importlib.import_module(f"{expectations.__name__}.{name}")


def _is_row_type(rule: Expectation) -> bool:
    return str(rule["type"]).startswith(ROW_RULE)


def _col(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")

"""Great Expectations on Spark: run rules on DataFrames, keep Data Docs, return plain results."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upath import UPath

from expectations.building import Expectation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SITE = "headgate"
RESULTS = "results"


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Rules, and the rows they are checked on; ``name`` is the title in the Data Docs."""

    name: str
    rows: DataFrame
    rules: Sequence[Expectation]


def run(
    checks: Sequence[Check], data_docs: UPath, run_name: str, kept: int = 20
) -> dict[str, Any]:
    """Run the checks and return ``success``, the ``failures`` and the ``data_docs`` index.

    ``success`` is false if an expectation of severity ``critical`` failed; ``failures`` lists
    those, and ``warnings`` the failed ones of lesser severity. The Data Docs keep the last ``kept``
    runs if they are on a local path, otherwise only this run.
    """
    # The import alone logs some 200 lines once Airflow has set up logging.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        local = data_docs.protocol in ("", "file")
        site = Path(data_docs.path) if local else Path(scratch)
        failed = _validate(checks, site, run_name, kept)
        if not local:
            _upload(site, data_docs)
    failures = [f for f in failed if f["severity"] == "critical"]
    return {
        "success": not failures,
        "failures": failures,
        "warnings": [f for f in failed if f["severity"] != "critical"],
        "data_docs": str(data_docs / "index.html"),
    }


def _validate(
    checks: Sequence[Check], site: Path, run_name: str, kept: int
) -> list[dict[str, Any]]:
    """Run all checks and update the site; return the failures."""
    import great_expectations as gx
    from great_expectations.checkpoint.actions import UpdateDataDocsAction

    _prune(site / RESULTS, kept - 1)
    context = _context(site)
    source = context.data_sources.add_spark("samples", persist=False)
    failures: list[dict[str, Any]] = []
    for check in checks:
        plain = plain_names(check.rows.columns)
        suite = gx.ExpectationSuite(name=check.name, expectations=_renamed(check.rules, plain))
        asset = source.add_dataframe_asset(check.name)
        batch = asset.add_batch_definition_whole_dataframe(check.name)
        definition = gx.ValidationDefinition(
            name=check.name, data=batch, suite=context.suites.add(suite)
        )
        checkpoint = gx.Checkpoint(
            name=check.name,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[UpdateDataDocsAction(name="docs", site_names=[SITE])],
            result_format="SUMMARY",
        )
        outcome = context.checkpoints.add(checkpoint).run(
            batch_parameters={"dataframe": check.rows.toDF(*plain.values())},
            run_id=gx.RunIdentifier(run_name=run_name),
        )
        given = {new: old for old, new in plain.items()}
        for validation in outcome.run_results.values():
            failed = (r.to_json_dict() for r in validation.results if not r.success)
            failures += [_failure(result, given) for result in failed]
    return failures


def plain_names(columns: Sequence[str]) -> dict[str, str]:
    """Return a name for each column that Great Expectations can look up on Spark.

    It takes dots to mean fields of a struct. Names of letters, digits and _ stay as they are.

    >>> plain_names(["price", "bid.price", "bid_price"])
    {'price': 'price', 'bid.price': 'bid_price_1', 'bid_price': 'bid_price'}
    """
    plain: dict[str, str] = {}
    for column in columns:
        name = stem = re.sub(r"\W", "_", column)
        number = 0
        while name in plain.values() or (name != column and name in columns):
            number += 1
            name = f"{stem}_{number}"
        plain[column] = name
    return plain


def _renamed(rules: Sequence[Expectation], plain: dict[str, str]) -> list[Expectation]:
    """Return the rules with columns under their plain names; absent columns keep theirs."""
    renamed = []
    for rule in rules:
        kwargs = dict(rule["kwargs"])
        if "column" in kwargs:
            kwargs["column"] = plain.get(kwargs["column"], kwargs["column"])
        renamed.append({**rule, "kwargs": kwargs})
    return renamed


def _context(site: Path) -> Any:
    """Return a context that keeps results next to the site: without them old pages are removed."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    defaults = InMemoryStoreBackendDefaults()
    defaults.stores[defaults.validation_results_store_name]["store_backend"] = {
        "class_name": "TupleFilesystemStoreBackend",
        "base_directory": str(site / RESULTS),
    }
    defaults.data_docs_sites = {
        SITE: {
            "class_name": "SiteBuilder",
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(site),
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
    }
    context = gx.get_context(
        mode="ephemeral", project_config=DataContextConfig(store_backend_defaults=defaults)
    )
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def _prune(results: Path, kept: int) -> None:
    """Remove all but the newest ``kept`` results of each check; their pages go with them."""
    by_check: dict[Path, list[Path]] = {}
    for file in results.glob("*/*/*/*/*.json"):  # stream / check / run / time / batch
        by_check.setdefault(file.parents[2], []).append(file)
    for files in by_check.values():
        for file in sorted(files, key=lambda f: f.parent.name, reverse=True)[max(kept, 0) :]:
            file.unlink()


def _failure(result: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """Return what failed in plain words: expectation, column, observed, allowed, counts."""
    config = result["expectation_config"]
    kwargs = dict(config["kwargs"])
    measured = result.get("result", {})
    allowed = {k: v for k, v in kwargs.items() if k not in ("batch_id", "column")}
    observed = measured.get("observed_value")
    if observed is None and "unexpected_percent" in measured:
        # As texts: JSON has no infinity.
        observed = ", ".join(str(v) for v in measured.get("partial_unexpected_list", [])[:3])
    return {
        "expectation": config["type"],
        "column": given.get(kwargs["column"], kwargs["column"]) if "column" in kwargs else None,
        "observed": observed,
        "allowed": allowed,
        "unexpected": measured.get("unexpected_count"),
        "rows": measured.get("element_count"),
        "severity": config.get("severity", "critical"),
        "error": _exception(result),
    }


def _exception(result: dict[str, Any]) -> str:
    """Return the message of an error inside Great Expectations, if the rule could not be run."""
    info = result.get("exception_info") or {}
    entries = [info] if "raised_exception" in info else list(info.values())
    raised = [e for e in entries if isinstance(e, dict) and e.get("raised_exception")]
    return str(raised[0].get("exception_message")) if raised else ""


def _upload(site: Path, target: UPath) -> None:
    for path in sorted(site.rglob("*")):
        if path.is_file():
            there = target / path.relative_to(site).as_posix()
            there.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, there.open("wb") as sink:
                shutil.copyfileobj(source, sink)

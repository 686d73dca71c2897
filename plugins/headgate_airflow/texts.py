"""What a planning DAG says about itself in the UI."""

from __future__ import annotations

from headgate_airflow.form import allowed, scalar_schemas
from planning.errors import DefinitionError
from planning.streams import StreamDefinition

STAGES = """\
| stage | what it does | when it fails |
|---|---|---|
| collect | takes the sample files that no run has used yet | skipped if nothing is new |
| validate | Great Expectations on Spark; bad rows to quarantine | a bad batch stops the run |
| statistics | reduces the samples on Spark | retried |
| solve | computes the candidate plan, certified by OR-Tools | stops if infeasible or contradicted |
| gate | tries the plan on samples it has not seen | a worse plan is refused, with the reason |
| publish | publishes the next version | skipped if refused, or in a dry run |

Whatever fails, the published plan stays in force.
"""


def plan_doc(definition: StreamDefinition) -> str:
    """Return the Markdown page of a stream's planning DAG."""
    what = definition.description.strip() or "A stream planned by Headgate."
    schedule = f"`{definition.schedule}`" if definition.schedule else "on demand"
    names = ", ".join(definition.attribute_names)
    return f"""\
### Plans for stream `{definition.stream}`

{what}

Family **{definition.family}**, attributes {names}, planned {schedule}. Samples arrive in
`{definition.landing}`. New versions update the asset `{asset_name(definition.stream)}`;
[Plans](/headgate/streams/{definition.stream}) shows them.

### Stages

{STAGES}
### Trigger

Press *Trigger*: an empty field leaves a parameter as defined, *Dry run* publishes nothing,
*Force* plans again without new samples and overrules the gate. Or by REST:
`POST /api/v2/dags/plan_{definition.stream}/dagRuns` with
`{{"logical_date": null, "conf": {{"dry_run": true}}}}`.

### Parameters

{_parameter_table(definition)}
"""


def broken_doc(error: DefinitionError) -> str:
    """Return the Markdown page of a stream whose definition cannot be used."""
    rows = "\n".join(f"- `{problem}`" for problem in error.problems)
    return f"""\
### This stream definition cannot be used

{rows}

Correct the file; the DAG replaces itself within a minute. `headgate streams check` says the same
on the command line. Plans published earlier stay in force.
"""


def asset_name(stream: str) -> str:
    """Return the name of the asset that stands for a stream's plans.

    >>> asset_name("ticks")
    'headgate_plan_ticks'
    """
    return f"headgate_plan_{stream}"


def _parameter_table(definition: StreamDefinition) -> str:
    schemas = scalar_schemas(definition)
    values = definition.parameters.model_dump(mode="json")
    rows = [
        f"| {name} | {value} | {allowed(schemas[name]) if name in schemas else 'see the YAML'} |"
        for name, value in values.items()
    ]
    return "\n".join(["| parameter | value | allowed |", "|---|---|---|", *rows])

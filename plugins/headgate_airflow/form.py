"""The trigger form of a planning DAG, derived from the family's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from planning.streams import StreamDefinition

SECTION = "Parameters"
SCALARS = ("integer", "number", "boolean", "string")
CONSTRAINTS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern", "enum",
)  # fmt: skip
SWITCHES = ("dry_run", "force")


def form(definition: StreamDefinition) -> dict[str, Param]:
    """Return the fields of the form: one per scalar parameter, then the switches.

    An empty field leaves the parameter as the definition has it; a switch, which cannot be empty,
    starts as the definition has it.
    """
    fields = {
        name: _field(name, schema, getattr(definition.parameters, name))
        for name, schema in scalar_schemas(definition).items()
        if name not in SWITCHES
    }
    fields["dry_run"] = Param(
        False, type="boolean", title="Dry run", section="Run",
        description="Plan and judge, but publish nothing; the samples stay for the next run.",
    )  # fmt: skip
    fields["force"] = Param(
        False, type="boolean", title="Force", section="Run",
        description=(
            "Plan again even if no new samples arrived, and publish even if the gate would refuse."
        ),
    )  # fmt: skip
    return fields


def overrides(definition: StreamDefinition, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the form changes in the definition's parameters."""
    names = set(scalar_schemas(definition)) - set(SWITCHES)
    return {
        name: value
        for name, value in params.items()
        if name in names
        and value not in (None, "")
        and value != getattr(definition.parameters, name)
    }


def scalar_schemas(definition: StreamDefinition) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of every parameter that is one number, text or switch."""
    schema = type(definition.parameters).model_json_schema()
    known = schema.get("$defs", {})
    scalars = {}
    for name, field in schema.get("properties", {}).items():
        scalar = _scalar(field, known)
        if scalar is not None:
            scalars[name] = scalar
    return scalars


def allowed(schema: Mapping[str, Any]) -> str:
    """Say in words what a field may contain.

    >>> allowed({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
    'number in (0, 1]'
    >>> allowed({"type": "integer", "minimum": 2})
    'integer ≥ 2'
    >>> allowed({"type": "string", "enum": ["a", "b"]})
    'a or b'
    """
    if "enum" in schema:
        return " or ".join(str(value) for value in schema["enum"])
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    kind = str(schema["type"])
    if low is not None and high is not None:
        left = "[" if "minimum" in schema else "("
        right = "]" if "maximum" in schema else ")"
        return f"{kind} in {left}{_number(low)}, {_number(high)}{right}"
    if low is not None:
        return f"{kind} {'≥' if 'minimum' in schema else '>'} {_number(low)}"
    if high is not None:
        return f"{kind} {'≤' if 'maximum' in schema else '<'} {_number(high)}"
    return kind


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _field(name: str, schema: Mapping[str, Any], value: Any) -> Param:
    limits = {key: schema[key] for key in CONSTRAINTS if key in schema}
    if "enum" in limits:
        limits["enum"] = [None, *limits["enum"]]
        limits["values_display"] = {"null": f"as defined ({value})"}
    switch = schema["type"] == "boolean"
    rule = "" if switch else f"Allowed: {allowed(schema)}. Empty: as defined ({value})."
    return Param(
        value if switch else None,
        description=f"{str(schema.get('description', '')).strip()} {rule}".strip(),
        type=["null", schema["type"]],
        title=name.replace("_", " "),
        section=SECTION,
        **limits,
    )


def _scalar(field: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scalar schema behind references, single choices and optional fields."""
    if "$ref" in field:
        target = known[field["$ref"].rsplit("/", 1)[-1]]
        return _scalar({**target, **{k: v for k, v in field.items() if k != "$ref"}}, known)
    if "anyOf" in field:
        choices = [choice for choice in field["anyOf"] if choice.get("type") != "null"]
        if len(choices) != 1:
            return None
        outer = {key: value for key, value in field.items() if key != "anyOf"}
        return _scalar({**choices[0], **outer}, known)
    return dict(field) if field.get("type") in SCALARS else None

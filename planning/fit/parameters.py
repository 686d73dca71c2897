"""FIT's part of a stream definition: the network document and how it is planned."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import structs
from pydantic import Field, field_validator

from planning.errors import Mistake
from planning.fit.network import QueryNetwork
from planning.sections import FamilyParameters

if TYPE_CHECKING:
    from planning.families import Definition

ELEMENT = "element"
BOUNDED = ("solver", "solver_w", "c_fit")
ROUNDING = 1e-9
COUNTS = ("period", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


class Parameters(FamilyParameters):
    """How coordinated load shedding is planned for a query network."""

    uses_queries: ClassVar[bool] = False
    definition_defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "samples": {"expectations": "operators"},
        "gate": {"holdout_by": ["period"], "holdout_from": "end", "holdout_parts": 12},
    }

    network: dict[str, Any] = Field(
        description="The query network: nodes (id, capacity in CPU seconds per second, parent), "
        "inputs (id, max_rate), operators (id, node, type, cost, selectivity, inputs, windows), "
        "outputs (id, stream, weight), optional links. Costs and selectivities are the first "
        "guess; measured ones replace them."
    )
    period_s: float = Field(
        default=10.0,
        gt=0,
        allow_inf_nan=False,
        description="Length of a control period in seconds: each sample row counts one element "
        "over one period.",
    )
    method: Literal["exact", "regions", "simplex", "solver", "solver_w", "c_fit"] = Field(
        default="exact",
        description="exact takes critical regions where they fit memory_bytes and the warm simplex "
        "elsewhere (no error); solver, solver_w and c_fit are the paper's methods.",
    )
    error: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="epsilon: largest (solver, c_fit) or expected (solver_w) relative error. Exact "
        "methods ignore it.",
    )
    min_keep: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of what arrives that every arc keeps, as far as the capacities allow, "
        "so that every arc has estimates and no weight exceeds 1 / min_keep. Exact methods only.",
    )
    headroom: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the periods in which no capacity may be exceeded although the rates "
        "are those of the period before: predicted rates are multiplied by what that takes, as "
        "measured in successive periods. 0 follows the predicted rates as they are.",
    )
    memory_bytes: int = Field(
        default=4_000_000,
        ge=0,
        description="How much memory critical regions may take before the simplex replaces them.",
    )
    max_regions: int = Field(
        default=5_000, ge=1, le=1_000_000, description="Most critical regions to enumerate."
    )
    max_plans: int = Field(
        default=1_000_000,
        ge=1,
        description="Most quadtree cells or table rows; a method that needs more refuses.",
    )
    rate_sample: int = Field(
        default=500,
        ge=2,
        le=100_000,
        description="How many observed rate vectors the statistics keep, for solver_w and figures.",
    )

    @field_validator("network")
    @classmethod
    def _network_is_sound(cls, document: dict[str, Any]) -> dict[str, Any]:
        network = QueryNetwork.from_document(document)
        network.check_worth_planning()
        return network.to_document()

    @cached_property
    def query_network(self) -> QueryNetwork:
        """The network as declared."""
        network = QueryNetwork.from_document(self.network)
        kept = max(self.min_keep, network.min_keep)
        return structs.replace(network, min_keep=kept)

    def check_definition(self, definition: Definition[Parameters]) -> None:
        """Check that the samples' attributes can hold counts of every element of the network."""
        names = [attribute.name for attribute in definition.attributes]
        missing = [name for name in (ELEMENT, *COUNTS) if name not in names]
        if missing:
            raise Mistake(
                "attributes",
                f"{', '.join((ELEMENT, *COUNTS))} for counts per element and period",
                f"none named {', '.join(missing)}",
                verb="name",
                at=("attributes",),
            )
        holdout_by = list(definition.gate.holdout_by)
        if holdout_by != ["period"]:
            raise Mistake(
                "gate.holdout_by",
                "[period]",
                str(holdout_by),
                "a rate vector needs all rows of its period",
                at=("gate", "holdout_by"),
            )
        network = self.query_network
        elements = {*network.input_ids, *(o.id for o in network.operators)}
        element = definition.attributes[names.index(ELEMENT)]
        if element.type != "category" or set(element.values) != elements:
            raise Mistake(
                f"attribute {ELEMENT}",
                f"a category with the values {', '.join(sorted(elements))}",
                f"{element.type} with {', '.join(element.values) or 'none'}",
                at=("attributes", names.index(ELEMENT)),
            )
        self._check_minimums()

    def _check_minimums(self) -> None:
        """Refuse minimums that no setting reaches, even if all else is dropped."""
        from planning.fit.planner import optimum

        network = self.query_network
        asking = [(k, output) for k, output in enumerate(network.outputs) if output.minimum > 0]
        if asking and self.method in BOUNDED:
            exact = "exact, regions or simplex in a network with minimum throughputs"
            at = ("parameters", "method")
            raise Mistake("method", exact, self.method, "leave method out", at=at)
        for k, output in asking:
            alone = tuple(
                structs.replace(o, weight=float(o is output), priority=0, minimum=0.0)
                for o in network.outputs
            )
            freed = structs.replace(network, outputs=alone, min_keep=0.0)
            most = optimum(freed, network.max_rates).outputs[output.id]
            brought = network.evaluate(network.max_rates).outputs[output.id]
            if output.minimum > most * (1.0 + ROUNDING):
                lower = f"lower it by {output.minimum - most:.4g}"
                remedy = f"{lower}, or raise max_rate of its inputs"
                if most < brought * (1.0 - ROUNDING):
                    remedy = f"{lower}, or raise the capacities on the way to it"
                raise Mistake(
                    f"minimum of output {output.id}",
                    f"at most {most:.6g} tuples/s, which reach it at the highest rates if all else "
                    "is dropped",
                    f"{output.minimum:g}",
                    remedy,
                    at=("parameters", "network", "outputs", k, "minimum"),
                )

"""The sifter's part of a stream definition, with the paper's defaults (Table I)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from planning.definition_errors import Place
from planning.families import Definition
from planning.sections import FamilyParameters

PartitionerName = Literal[
    "cost_tree",
    "uniform_grid",
    "data_equi_depth",
    "query_equi_depth",
    "flexible_uniform_grid",
    "flexible_data_equi_depth",
    "flexible_query_equi_depth",
    "qdpart",
]


class Parameters(FamilyParameters):
    """How NR sifters are built for a stream."""

    query_terms: ClassVar[frozenset[str]] = frozenset(
        {"min_completeness", "priority", "qos", "tenant"}
    )

    regions: int = Field(
        default=16,
        ge=1,
        le=1_000_000,
        description="l: number of regions the data space is divided into. More regions shed more "
        "precisely and make the plan larger; 16 is often enough, 100 pays off for heavy shedding.",
    )
    fairness_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Delta: by how much the drop thresholds of two regions with queries may "
        "differ. 0 treats all queries alike, 1 allows the best overall quality.",
    )
    throttle_fraction: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="z: fraction of the stream that is usually processed. The regions are chosen "
        "for it; the plan answers for every other z as well.",
    )
    min_keep: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Fraction that every region keeps at least, paid for by dropping more "
        "elsewhere: no region is left without estimates, and weights stay at or below 1 / "
        "min_keep. At a z below it, every region keeps z.",
    )
    budget_tolerance: float = Field(
        default=0.01,
        ge=0.001,
        le=1,
        description="By how much of it any 10,000 tuples in a row may exceed their budget of z. "
        "More room keeps more of what matters where it comes in bursts.",
    )
    partitioner: PartitionerName = Field(
        default="cost_tree",
        description="How the data space is divided into regions. cost_tree is the best on every "
        "workload measured; the others are the paper's.",
    )
    calibrate: bool = Field(
        default=True,
        description="Count frequencies mainly on tuples the partitioner has not seen, and each "
        "query's data on the sample instead of taking it as even inside a region, so that the plan "
        "keeps its budget and its predicted quality on fresh data.",
    )
    pins: tuple[str, ...] = Field(
        default=(),
        description="Must-keep predicates, as SQL WHERE text: tuples that match one are never "
        "dropped, and are charged to the budget first.",
    )
    sample_size: int = Field(
        default=20_000,
        ge=2,
        le=10_000_000,
        description="|U|: at most so many samples are kept in memory, to make the regions from and "
        "to see how queries share them; take 50 or more per region. Frequencies use all samples.",
    )
    quality_error: float = Field(
        default=0.001,
        ge=1e-6,
        le=0.1,
        description="With guarantees, QoS lines or tenants: how much quality, of 1, interpolating "
        "between the plan's settings may lose. Less takes more settings and more time.",
    )
    solve_limit_s: float = Field(
        default=60.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds after which solving with guarantees, QoS lines or tenants ends; the "
        "plan then states the larger error that it reached.",
    )

    def check_definition(self, definition: Definition[Parameters]) -> None:
        """Read pins and SQL queries once, so that a mistake shows when the definition is read."""
        texts: list[tuple[str, str, Place]] = [
            (f"pin {i}", text, ("parameters", "pins", i)) for i, text in enumerate(self.pins)
        ]
        for i, query in enumerate(definition.queries.inline):
            if query.where is not None:
                texts.append((f"query {query.name or i}", query.where, ("queries", "inline", i)))
        if texts:
            from planning.sifter.model import Space
            from planning.sifter.queries.where import disjoint_boxes

            space = Space.of(definition)
            for label, text, at in texts:
                disjoint_boxes(text, space, label, at)
        from planning.sifter.queries import terms

        terms.check(definition)

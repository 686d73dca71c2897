"""The sifter's part of a stream definition, with the paper's defaults (Table I)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Parameters(BaseModel):
    """How NR sifters are built for a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    partitioner: Literal["uniform_grid", "data_equi_depth", "query_equi_depth"] = Field(
        default="data_equi_depth",
        description="How the data space is divided into regions.",
    )
    sample_size: int = Field(
        default=1000,
        ge=2,
        le=10_000_000,
        description="|U|: size of the sample from which the regions are made. Frequencies use all "
        "samples.",
    )

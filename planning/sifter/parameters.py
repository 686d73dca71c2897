"""The sifter's part of a stream definition, with the paper's defaults (Table I)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Parameters(BaseModel):
    """How NR sifters are built for a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    regions: int = Field(default=16, ge=1, le=1_000_000)  # l
    fairness_threshold: float = Field(default=0.5, ge=0, le=1)  # Delta
    throttle_fraction: float = Field(default=0.5, gt=0, le=1)  # z, the operating point
    partitioner: Literal["uniform_grid", "data_equi_depth"] = "data_equi_depth"
    sample_size: int = Field(default=1000, ge=2)  # |U|

"""The family's problem in OR-Tools, built from the statistics, and plans compared with it."""

from planning.attributes.program.checks import Certifier, certifier
from planning.attributes.program.model import Model, Solution, solve

__all__ = ["Certifier", "Model", "Solution", "certifier", "solve"]

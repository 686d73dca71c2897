"""The run-time solver's memory: copies are independent, and single vectors equal batches."""

from __future__ import annotations

import copy
import pickle

import numpy as np

from benchmarks.fit import examples
from benchmarks.fit.networks import random_network
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex


def test_single_vectors_equal_a_batch_bit_by_bit():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        program = shedding_program(random_network(rng, inputs=4, nodes=3, operators=10))
        rates = rng.random((50, 4))
        batch = WarmSimplex(program)
        singly = WarmSimplex(program)
        np.testing.assert_array_equal(
            batch.fractions(rates), np.concatenate([singly.fractions(r[None, :]) for r in rates])
        )


def test_rates_that_are_not_contiguous_are_read_alike():
    program = shedding_program(examples.wide(4))
    rates = np.random.default_rng(1).random((30, 4))
    expected = WarmSimplex(program).dropped(rates)
    strided = np.repeat(rates, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(WarmSimplex(program).dropped(strided), expected)


def test_results_and_inputs_are_the_callers_own():
    warm = WarmSimplex(shedding_program(examples.figure_7()))
    rates = np.array([[0.2]])
    first = warm.fractions(rates)
    warm.fractions(np.array([[0.9]]))
    np.testing.assert_allclose(first, [[0.0, 0.0, 0.6]], atol=1e-12)
    assert rates[0, 0] == 0.2


def test_copies_work_on_their_own_memory():
    warm = WarmSimplex(shedding_program(examples.wide(4)))
    rates = np.random.default_rng(2).random((20, 4))
    copies = [copy.deepcopy(warm), pickle.loads(pickle.dumps(warm))]
    expected = warm.fractions(rates)
    del warm
    for other in copies:
        np.testing.assert_array_equal(other.fractions(rates), expected)

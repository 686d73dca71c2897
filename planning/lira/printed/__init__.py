"""The paper's own algorithms, where ours took their place: GRIDREDUCE and GREEDYINCREMENT.

``partitioner: gridreduce`` selects GRIDREDUCE; throttlers by GREEDYINCREMENT are for comparison.
"""

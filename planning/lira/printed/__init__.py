"""The paper's own algorithms, where ours replaced them: GRIDREDUCE and GREEDYINCREMENT.

``partitioner: gridreduce`` selects GRIDREDUCE; throttlers by GREEDYINCREMENT are for comparison.
"""

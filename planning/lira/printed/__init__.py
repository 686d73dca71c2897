"""The paper's own GRIDREDUCE, where ours replaced it: ``partitioner: gridreduce`` selects it."""

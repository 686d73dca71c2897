"""The paper's own algorithms; a sorted list and feed-forward control have replaced them."""

"""The paper's own algorithms: its ranking (``method: paper``) and its detector of cycles."""

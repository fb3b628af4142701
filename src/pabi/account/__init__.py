"""Questions about a description, answered by all analyses: the best guarantee and how to get a better one."""

"""Small clusters for tests."""

# Of LocalCluster: all workers are threads of this process, and no port is asked for that others may have.
IN_PROCESS = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}

"""The programs of HPC Pack and Compute Cluster Server: `job`, `task`, `node`, `cluscfg` and `clusrun`."""

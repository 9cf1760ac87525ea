"""What only tests and benchmarks need: machines, clusters, MPI and nodes in this process."""

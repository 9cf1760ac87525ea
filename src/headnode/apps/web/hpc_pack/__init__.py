"""HPC Pack's REST API on the gateway: programs written for it work unchanged.

Source:  HPC Pack REST API 2019 (Microsoft's Swagger document); docs/contracts/06-hpc-pack-rest.md.
"""

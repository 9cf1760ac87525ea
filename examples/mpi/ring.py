"""A number goes around all ranks, each adds its own; then all ranks add up at once.  Both must agree."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size

if rank == 0:
    world.send(0, dest=(rank + 1) % size)
    around = world.recv(source=size - 1)
else:
    around = world.recv(source=rank - 1) + rank
    world.send(around, dest=(rank + 1) % size)

at_once = world.allreduce(rank)
nodes = world.gather(MPI.Get_processor_name())
if rank == 0:
    print(f"{size} ranks on {len(set(nodes))} nodes: {around} around the ring, {at_once} at once", flush=True)

"""Count primes with functions that run as tasks of the cluster, eight at a time if there are processors."""

from concurrent.futures import as_completed

from headnode.sdk import HeadnodeExecutor


def primes_between(low: int, high: int) -> int:
    """Return how many primes there are from `low` up to, but without, `high`."""
    if low >= high:
        raise ValueError("low is not below high")
    sieve = bytearray([1]) * high
    for number in range(2, int(high**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, high, number)))
    return sum(sieve[max(low, 2) : high])


STEP = 125_000
with HeadnodeExecutor(name="primes", run_time="10m") as executor:
    parts = [executor.submit(primes_between, low, low + STEP) for low in range(0, 1_000_000, STEP)]
    for part in as_completed(parts):
        print(f"{part.result()} primes in task {part.place}")
    print(f"{sum(part.result() for part in parts)} primes below 1000000")

    wrong = executor.submit(primes_between, 5, 5)
    if (error := wrong.exception()) is not None:
        print(f"a call has failed: {type(error).__name__}: {error}")

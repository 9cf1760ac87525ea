"""The rules for requirements on nodes, said a second time."""

import re
from collections.abc import Sequence

from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import NodeNeeds


def meets(needs: NodeNeeds, facts: NodeFacts) -> bool:
    """Return whether a node is what is needed."""
    name = facts.name.casefold()
    has = {each.casefold() for each in (*facts.features, *facts.groups)}
    return (
        (not needs.names or name in folded(needs.names))
        and name not in folded(needs.excluded)
        and (not needs.patterns or any(re.fullmatch(each, name) for each in needs.patterns))
        and not any(re.fullmatch(each, name) for each in needs.excluded_patterns)
        and all(folded(choice) & has for choice in needs.features)
        and all(any(re.fullmatch(each, one) for one in has) for each in needs.feature_patterns)
        and not folded(needs.lacking) & has
        and (not needs.architectures or facts.architecture.casefold() in folded(needs.architectures))
        and (not needs.systems or facts.system.casefold() in folded(needs.systems))
        and facts.memory >= needs.minimum_memory
        and facts.disk >= needs.minimum_disk
        and facts.swap >= needs.minimum_swap
        and facts.memory + facts.swap >= needs.minimum_virtual
        and facts.speed >= needs.minimum_speed
        and facts.processors >= needs.minimum_processors
        and facts.sockets >= needs.minimum_sockets
        and max(1, facts.cores_per_socket) >= needs.minimum_cores_per_socket
        and max(1, facts.threads_per_core) >= needs.minimum_threads_per_core
    )


def folded(names: Sequence[str]) -> set[str]:
    """Return names as they are compared."""
    return {name.casefold() for name in names}

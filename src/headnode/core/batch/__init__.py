"""Other schedulers as text: their commands, what they answer, and how a job is handed over exactly once."""

HAND_OFF = "HEADNODE_HAND_OFF"
"""The variable by which the programs of `hn compat` know a hand-off: the head would hand jobs to itself."""

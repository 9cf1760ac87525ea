"""The questions that create something; printed from the verbs by ``make bless``."""

CREATING_QUESTIONS = frozenset(
    (
        "create_job",
        "submit_job",
        "add_tasks",
        "clone_job",
        "submit_jobs",
        "submit_group",
        "invite_node",
        "create_reservation",
        "create_token",
    )
)

"""The questions that create something; printed from the verbs by ``make bless``."""

CREATING_QUESTIONS = frozenset(
    (
        "create_job",
        "submit_job",
        "add_tasks",
        "clone_job",
        "submit_group",
        "invite_node",
        "create_token",
        "submit_jobs",
        "create_reservation",
        "invite_standby",
        "create_recurring_job",
    )
)

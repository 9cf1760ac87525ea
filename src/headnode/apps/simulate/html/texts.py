"""What the page says beside its figures: what they mean, and what is shown."""

FIGURES = (
    "Utilisation is the part of all processors in use during the makespan, which goes from the first "
    "arrival to the last end. The bounded slowdown of a job is (wait + run time) / run time, where no "
    "run time counts as less than 10 s; the table has the mean of all jobs."
)
BEST = " The best of each column is bold. Jobs earlier and later are counted against the first line."
PRIORITIES = (
    "The first wait is until a job begins. The mean wait is all that it takes beyond its run time: what it "
    "loses by being stopped, and by having fewer processors than its own, counts as waiting. Lost is the "
    "work of tasks that were stopped for others and began anew. At limit: jobs that were over at their run "
    "time limits, with work left to do."
)
NO_BARS = (
    "Jobs have more processors at one time than at another in this simulation, and are not drawn as bars. "
    "The start of a job is as far before its end as it would have run on all its processors."
)
NOTHING_LEFT_OUT = (
    "Nothing was left out and nothing was changed: every line of the log was replayed as it stands."
)
OVER_TIME = (
    "For the processors in use, each step is the average over its time. For what waits, it is the most "
    "that waited at any moment of its time, so that no peak is hidden. Point at a step for the average, "
    "the lowest and the highest. Click a policy to leave it out, twice to see it alone. Drag over the "
    "chart to look closer, double-click to get back."
)
KINDS = (
    "Dots are medians: half of the jobs have no more. Whiskers end where nine in ten jobs have no more. "
    "The scale is logarithmic."
)
CHANGES = "The share of all jobs that start so much earlier or later. Point at a bar for the number of jobs."
MACHINE = (
    "At first, this is the busiest day under the policy with the shortest mean wait: the day on which "
    "waiting jobs ask for most processors. "
)
POOL = (
    "The simulation counts processors and does not name them. Here, each job gets the first gap it fits "
    "into when it starts, or else the lowest free processors, in several pieces."
)
NODES = "Jobs are on the nodes that the head gave them. Names of nodes stand where their processors begin."
NO_SCRIPT = "The charts and the table of all jobs need JavaScript. All other figures are here without it."

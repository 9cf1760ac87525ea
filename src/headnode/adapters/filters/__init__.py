"""Running a site's filters beside the head: programs, and plug-ins in worker processes."""

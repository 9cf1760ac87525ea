#!/bin/bash
# A submission filter: every job has a name of the form GROUP-WORK, such as "phys-lattice"; jobs without a
# name get one.  It reads and edits the job file of HPC Pack in place.
#
#   hn cluster params SubmissionFilterProgram=/opt/filters/name-policy.sh
set -eu
job=$1

case ${HEADNODE_FILTER_CALL:-submission} in
    revert-*) exit 0 ;;  # nothing was taken, so there is nothing to give back
esac

# The attribute of the Job element, not one of a Task.
name=$(sed -n 's/.*<Job [^>]* Name="\([^"]*\)".*/\1/p' "$job" | head -n 1)

if [ -z "$name" ]; then
    sed -i -e '0,/<Job /s/\(<Job [^>]*\) Name=""/\1/' -e '0,/<Job /s//<Job Name="misc-unnamed" /' "$job"
    echo "the job had no name and is called misc-unnamed now"
    exit 1
fi
if [[ ! $name =~ ^[a-z]+-[a-z0-9-]+$ ]]; then
    echo "the name '$name' is not of the form GROUP-WORK, such as phys-lattice" >&2
    exit 2
fi

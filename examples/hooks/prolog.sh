#!/bin/sh
# A prolog: make a scratch directory for the job, which belongs to its user.
#
#   hn cluster params "PrologProgram=/opt/hooks/prolog.sh /scratch" "EpilogProgram=/opt/hooks/epilog.sh /scratch"
#
# Tasks find it as /scratch/job-$CCP_JOBID.  It runs as root, so it believes nothing that a user could have put
# there: mkdir fails if something has the name already, a link too, and what has another name is left alone.
set -eu
scratch=${1:?say where scratch directories are to be}
directory=$scratch/job-$HEADNODE_JOB

if [ ! -d "$scratch" ]; then
    echo "there is no directory $scratch; create it on this node"
    exit 1
fi

if [ "$(df -Pk "$scratch" | awk 'NR == 2 { print $4 }')" -lt 1048576 ]; then
    echo "less than 1 GB is free in $scratch"
    exit 1
fi
mkdir -m 700 "$directory"
chown -h "$HEADNODE_UID:$HEADNODE_GID" "$directory"

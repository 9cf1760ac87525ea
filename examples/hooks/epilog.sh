#!/bin/sh
# An epilog: remove the scratch directory that prolog.sh has made.  It is no fault that there is none: the prolog
# may have failed.
set -eu
scratch=${1:?say where scratch directories are}
rm -rf --one-file-system -- "$scratch/job-$HEADNODE_JOB"

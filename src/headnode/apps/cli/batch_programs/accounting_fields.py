"""The fields of ``sacct``: their widths, and how their headings are written.

Source:  Slurm 22.05, ``sacct --helpformat``, with the widths that it prints.
"""

EMPTY_FIELDS = {
    "AdminComment": 15, "AssocID": 7, "AveCPUFreq": 10, "AvePages": 10, "AveVMSize": 10, "BlockID": 16,
    "ConsumedEnergy": 14, "ConsumedEnergyRaw": 17, "Container": 19, "DBIndex": 10, "Flags": 19,
    "Layout": 9, "MaxDiskReadNode": 15, "MaxDiskReadTask": 15, "MaxDiskWriteNode": 16,
    "MaxDiskWriteTask": 16, "MaxPages": 8, "MaxPagesNode": 12, "MaxPagesTask": 14, "MaxRSSNode": 10,
    "MaxRSSTask": 10, "MaxVMSize": 10, "MaxVMSizeNode": 14, "MaxVMSizeTask": 14, "McsLabel": 12,
    "MinCPU": 10, "MinCPUNode": 10, "MinCPUTask": 10, "QOSRAW": 6, "ReqCPUFreq": 10, "ReqCPUFreqGov": 13,
    "ReqCPUFreqMax": 13, "ReqCPUFreqMin": 13, "ReservationId": 8, "SubmitLine": 20, "SystemComment": 15,
    "TRESUsageInAve": 14, "TRESUsageInMax": 14, "TRESUsageInMaxNode": 18, "TRESUsageInMaxTask": 18,
    "TRESUsageInMin": 14, "TRESUsageInMinNode": 18, "TRESUsageInMinTask": 18, "TRESUsageInTot": 14,
    "TRESUsageOutAve": 15, "TRESUsageOutMax": 15, "TRESUsageOutMaxNode": 19, "TRESUsageOutMaxTask": 19,
    "TRESUsageOutMin": 15, "TRESUsageOutMinNode": 19, "TRESUsageOutMinTask": 19, "TRESUsageOutTot": 15,
    "WCKey": 10, "WCKeyID": 10,
}  # fmt: skip
"""Those that nothing is known of here: title -> width.  The column is empty, so that no program fails."""
LENGTHS = {
    "account": 10, "alloccpus": 10, "allocnodes": 10, "alloctres": 10, "avecpu": 10, "avediskread": 14,
    "avediskwrite": 14, "averss": 10, "cluster": 10, "comment": 14, "constraints": 19, "cputime": 10,
    "cputimeraw": 10, "derivedexitcode": 15, "elapsed": 10, "elapsedraw": 10, "eligible": 19, "end": 19,
    "exitcode": 8, "gid": 6, "group": 9, "jobid": -12, "jobidraw": -12, "jobname": 10, "maxdiskread": 12,
    "maxdiskwrite": 12, "maxrss": 10, "ncpus": 10, "nnodes": 8, "nodelist": 15, "ntasks": 8,
    "partition": 10, "priority": 10, "qos": 10, "reason": 22, "reqcpus": 8, "reqmem": 10, "reqnodes": 8,
    "reqtres": 10, "reservation": 20, "reserved": 10, "resvcpu": 10, "resvcpuraw": 10, "start": 19,
    "state": 10, "submit": 19, "suspended": 10, "systemcpu": 10, "timelimit": 10, "timelimitraw": 10,
    "totalcpu": 10, "uid": 6, "user": 9, "usercpu": 10, "workdir": 20,
} | {title.lower(): width for title, width in EMPTY_FIELDS.items()}  # fmt: skip
"""Name -> width; below 0 it stands left."""
TITLES = {
    "account": "Account", "alloccpus": "AllocCPUS", "allocnodes": "AllocNodes", "alloctres": "AllocTRES",
    "avecpu": "AveCPU", "averss": "AveRSS", "cluster": "Cluster", "comment": "Comment",
    "cputime": "CPUTime", "cputimeraw": "CPUTimeRAW", "derivedexitcode": "DerivedExitCode",
    "elapsed": "Elapsed", "elapsedraw": "ElapsedRaw", "eligible": "Eligible", "end": "End",
    "exitcode": "ExitCode", "group": "Group", "jobid": "JobID", "jobidraw": "JobIDRaw",
    "jobname": "JobName", "maxrss": "MaxRSS", "ncpus": "NCPUS", "nnodes": "NNodes",
    "nodelist": "NodeList", "ntasks": "NTasks", "partition": "Partition", "priority": "Priority",
    "qos": "QOS", "reason": "Reason", "reqcpus": "ReqCPUS", "reqmem": "ReqMem", "reqnodes": "ReqNodes",
    "reqtres": "ReqTRES", "reservation": "Reservation", "start": "Start", "state": "State",
    "submit": "Submit", "suspended": "Suspended", "systemcpu": "SystemCPU", "timelimit": "Timelimit",
    "timelimitraw": "TimelimitRaw", "totalcpu": "TotalCPU", "uid": "UID", "user": "User",
    "usercpu": "UserCPU", "workdir": "WorkDir", "gid": "GID", "constraints": "Constraints",
    "maxdiskread": "MaxDiskRead", "maxdiskwrite": "MaxDiskWrite", "avediskread": "AveDiskRead",
    "avediskwrite": "AveDiskWrite", "reserved": "Reserved", "resvcpu": "ResvCPU", "resvcpuraw": "ResvCPURAW",
} | {title.lower(): title for title in EMPTY_FIELDS}  # fmt: skip

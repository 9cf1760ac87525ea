"""Submit description files of HTCondor as job files.

`statements` finds values and queue commands, `macros` expands them, `commands` and
`other_commands` are the tables of what they ask for, `draft` collects that for a process, `jobs` makes jobs;
`reading` puts them together, `flows` reads flows of DAGMan, `writing` writes a submit file.
"""

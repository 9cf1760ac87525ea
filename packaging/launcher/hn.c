/* The program `hn`: hands a command to the resident client of this user, or starts Python for it.
 *
 * A command that only asks the head and prints is handed over: its arguments, environment, directory and
 * descriptors 0, 1, 2.  Everything else that a process inherits is part of the name of the resident, so the
 * resident has it too: user, groups, capabilities, limits, umask, namespaces, control groups, ignored signals,
 * and the variables that decide what Python imports.  Before the whole request is sent, each trouble leads to
 * plain Python; after that, none does: a command is never carried out twice.
 *
 * Source: docs/decisions/0037-resident-client.md; Mercurial, "chg"; unix(7), cmsg(3), pidfd_send_signal(2).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SWITCH "HEADNODE_RESIDENT_CLIENT" /* 0: no resident; else the seconds that it waits for a call */
#define PLAIN "from headnode.apps.cli.program import run_plain; run_plain()"
#define RESIDENT "from headnode.apps.cli.resident import serve; serve()"
enum { PATIENCE = 250 /* ms for the resident to answer */, RECENT = 10 /* s since the last call */,
       LARGEST = 4 << 20 /* bytes of arguments and environment */, HANDED = 5 /* descriptors */, MOST = 16 /* residents of a user */ };

extern char **environ;
static char python[PATH_MAX + 16], name[40];
static int worker = -1; /* pidfd of the process that carries out the command */
static volatile sig_atomic_t forwarded;

static int listed(const char *word, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(word, *list)) return 1;
    return 0;
}

/* Tasks, hooks and filters end with all that they start; a resident would outlive them. */
static int is_started_by_headnode(void) {
    static const char *const of_users[] = {"STATE=", "URL=", "TOKEN=", "CA_FILE=", "RESIDENT_CLIENT=", "TESTS=", NULL};
    for (char **each = environ; *each; each++) {
        int known = strncmp(*each, "HEADNODE_", 9) != 0;
        for (const char *const *own = of_users; *own && !known; own++) known = !strncmp(*each + 9, *own, strlen(*own));
        if (!known) return 1;
    }
    return 0;
}

/* Commands that ask the head and print: they start no process and need no terminal of their own. */
static int may_be_handed(int argc, char **argv, const char *file) {
    static const char *const programs[] = {"sbatch", "squeue", "scancel", "sinfo", "sacct", "qsub", "qstat", "qdel", "bsub", "bjobs", "bkill",
        "condor_submit", "condor_q", "condor_history", "condor_rm", "condor_status", NULL};
    static const char *const of_terminals[] = {"-I", "-Ip", "-Is", NULL}; /* options of bsub */
    static const char *const nouns[] = {"job", "task", "node", "cluster", NULL};
    const char *off = getenv(SWITCH), *slash = strrchr(file, '/'), *called = slash ? slash + 1 : file;
    if ((off && !strcmp(off, "0")) || is_started_by_headnode() || getuid() != geteuid() || getgid() != getegid()) return 0;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0) return 0;
    pid_t group = tcgetpgrp(0);
    if (group > 0 && group != getpgrp()) return 0; /* in the background: reading the terminal has to stop it */
    for (int at = 1; !strcmp(called, "bsub") && at < argc; at++)
        if (listed(argv[at], of_terminals)) return 0;
    if (listed(called, programs)) return 1;
    int word = 1;
    if (!listed(called, nouns)) {
        if (strcmp(called, "hn") && strcmp(called, "headnode")) return 0;
        if (argc > 2 && !strcmp(argv[1], "--state")) word = 3;
        if (word >= argc || !listed(argv[word++], nouns)) return 0;
    }
    return word < argc && strcmp(argv[word], "shell");
}

static uint64_t sums[2] = {0xcbf29ce484222325u, 0x9ae16a3b2f90404fu}; /* FNV-1a, with two factors */
static const uint64_t factors[2] = {0x100000001b3u, 0x9fb21c651e98df25u};

static void mix(const char *bytes, size_t size) {
    for (size_t at = 0; at <= size; at++) /* a zero ends each part */
        for (int each = 0; each < 2; each++)
            sums[each] = (sums[each] ^ (at < size ? (unsigned char)bytes[at] : 0u)) * factors[each];
}

static int mix_file(const char *path, const char *const *lines) {
    char text[16384], *rest = text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (size < 0 || (size_t)size == sizeof text - 1) return 0;
    text[size] = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        int wanted = !lines;
        for (const char *const *each = lines; each && *each; each++) wanted |= !strncmp(line, *each, strlen(*each));
        if (wanted) mix(line, strlen(line));
    }
    return 1;
}

static int decides(const char *variable) {
    static const char *const prefixes[] = {"PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME=", "GLIBC_", "MALLOC_", SWITCH, NULL};
    for (const char *const *each = prefixes; *each; each++)
        if (!strncmp(variable, *each, strlen(*each))) return 1;
    return 0;
}

static int in_order(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static int mix_variables(void) { /* in one order: shells pass them on in another */
    char *found[64];
    size_t count = 0;
    for (char **each = environ; *each; each++)
        if (decides(*each)) {
            if (count == sizeof found / sizeof *found) return 0;
            found[count++] = *each;
        }
    qsort(found, count, sizeof *found, in_order);
    for (size_t each = 0; each < count; each++) mix(found[each], strlen(found[each]));
    return 1;
}

/* Name the resident by all that it has in common with this process. */
static int make_name(void) {
    static const char *const lines[] = {"Umask:", "Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "Cap", "NoNewPrivs:",
                                        "Seccomp", "Cpus_allowed:", "Mems_allowed:", NULL};
    static const char *const links[] = {"exe", "root", "ns/mnt", "ns/net", "ns/user", "ns/pid", "ns/uts", "ns/ipc",
                                        "ns/cgroup", "ns/time", NULL};
    struct stat own;
    char path[64], target[PATH_MAX];
    for (const char *const *each = links; *each; each++) {
        snprintf(path, sizeof path, "/proc/self/%s", *each);
        ssize_t size = readlink(path, target, sizeof target);
        mix(target, size < 0 ? 0 : (size_t)size);
    }
    if (!mix_file("/proc/self/status", lines) || !mix_file("/proc/self/limits", NULL) ||
        !mix_file("/proc/self/cgroup", NULL) || stat("/proc/self/exe", &own)) return 0;
    mix_file("/proc/self/loginuid", NULL), mix_file("/proc/self/sessionid", NULL), mix_file("/proc/self/oom_score_adj", NULL);
    mix(python, strlen(python));
    int nice = getpriority(PRIO_PROCESS, 0);
    mix((char *)&own.st_ino, sizeof own.st_ino), mix((char *)&own.st_mtim, sizeof own.st_mtim), mix((char *)&nice, sizeof nice);
    return mix_variables() && snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)sums[0], (unsigned long long)sums[1]) == 32;
}

/* Return the directory of the sockets of this user, opened: of nobody else, and no link. */
static int open_directory(char *path, size_t size) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat found;
    int length = runtime && *runtime == '/' ? snprintf(path, size, "%s/headnode-client", runtime)
                                            : snprintf(path, size, "/tmp/headnode-client-%u", (unsigned)getuid());
    if (length < 0 || (size_t)length >= size || (mkdir(path, 0700) && errno != EEXIST)) return -1;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0 && !fstat(directory, &found) && found.st_uid == getuid() && (found.st_mode & 07777) == 0700) return directory;
    if (directory >= 0) close(directory);
    return -1;
}

/* Start a resident for the next calls, if the last call was a moment ago; a single command pays for none. */
static void start_resident(int directory, const char *path) {
    struct stat calls;
    char file[48], *words[] = {python, "-P", "-c", RESIDENT, (char *)path, name, NULL}, **kept = environ;
    int seen = openat(directory, "calls", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_EXCL, 0600), first = seen >= 0;
    if (!first) seen = openat(directory, "calls", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (seen < 0) return;
    int recent = !first && !fstat(seen, &calls) && time(NULL) - calls.st_mtime < RECENT;
    futimens(seen, NULL);
    close(seen);
    snprintf(file, sizeof file, "resident-%d", (int)(sums[0] % MOST)); /* a bound: the others take plain Python */
    int lock = recent ? openat(directory, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (lock < 0) return;
    pid_t child = flock(lock, LOCK_EX | LOCK_NB) ? -1 : fork();
    if (child == 0) {
        if (setsid() < 0 || fork() != 0) _exit(0);
        for (char **each = environ; *each; each++) /* nothing else of this environment stays in the resident */
            if (decides(*each)) *kept++ = *each;
        *kept = NULL;
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        lock = fcntl(lock, F_DUPFD, 10), directory = fcntl(directory, F_DUPFD, 10);
        if (nothing < 0 || lock < 0 || directory < 0 || chdir("/")) _exit(1);
        for (int fd = 0; fd < 3; fd++) dup2(nothing, fd);
        dup2(lock, 3), dup2(directory, 4);
        if (syscall(SYS_close_range, 5, ~0U, 0)) _exit(1);
        execv(python, words);
        _exit(1);
    }
    if (child > 0) waitpid(child, NULL, 0);
    close(lock);
}

static void forward(int number) {
    int before = errno;
    if (number == SIGTSTP) {
        syscall(SYS_pidfd_send_signal, worker, SIGSTOP, NULL, 0);
        raise(SIGSTOP);
        syscall(SYS_pidfd_send_signal, worker, SIGCONT, NULL, 0);
    } else {
        if (number != SIGWINCH) forwarded = number;
        syscall(SYS_pidfd_send_signal, worker, number, NULL, 0);
    }
    errno = before;
}

static void forward_signals(void) {
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP};
    struct sigaction now = {.sa_handler = forward, .sa_flags = SA_RESTART}, before;
    for (size_t each = 0; each < sizeof all / sizeof *all; each++)
        if (!sigaction(all[each], NULL, &before) && before.sa_handler != SIG_IGN) sigaction(all[each], &now, NULL);
}

/* Connect; return the socket once a process of this user has sent what it is signalled by, else -1. */
static int call(int directory) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    char ready, space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {&ready, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int here = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); /* a full backlog refuses at once */
    struct pollfd answer = {.fd = here, .events = POLLIN};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
    if (here < 0 || connect(here, (struct sockaddr *)&address, sizeof address)) goto no;
    if (getsockopt(here, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != getuid()) goto no;
    if (poll(&answer, 1, PATIENCE) != 1) {
        unlinkat(directory, name, 0); /* it hangs: the next calls need not wait for it */
        goto no;
    }
    struct cmsghdr *with;
    if (recvmsg(here, &message, MSG_CMSG_CLOEXEC) == 1 && (with = CMSG_FIRSTHDR(&message)) && !(message.msg_flags & MSG_CTRUNC) &&
        with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS && with->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&worker, CMSG_DATA(with), sizeof worker);
        fcntl(here, F_SETFL, 0);
        return here;
    }
no:
    if (here >= 0) close(here);
    return -1;
}

static char *put(char *at, const char *text) { return stpcpy(at, text) + 1; }

/* Send the whole command; return whether all of it is on its way. */
static int send_command(int here, int argc, char **argv, const char *called) {
    uint32_t head[3] = {(uint32_t)argc, 0, (uint32_t)getppid()};
    int life[2]; /* nothing is written to it: it hangs up when this process ends, and nothing else wakes its reader */
    if (pipe2(life, O_CLOEXEC)) return 0;
    int fds[HANDED] = {0, 1, 2, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), life[0]};
    char space[CMSG_SPACE(sizeof fds)] __attribute__((aligned(8))) = {0};
    size_t size = strlen(called) + 1;
    for (int each = 1; each < argc; each++) size += strlen(argv[each]) + 1;
    for (char **each = environ; *each; each++) size += strlen(*each) + 1;
    char *text = size <= LARGEST ? malloc(size) : NULL, *at = text;
    if (!text || fds[3] < 0) return 0;
    at = put(at, called);
    for (int each = 1; each < argc; each++) at = put(at, argv[each]);
    for (char **each = environ; *each; each++) at = put(at, *each);
    head[1] = (uint32_t)size;
    struct iovec part = {head, sizeof head};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET, with->cmsg_type = SCM_RIGHTS, with->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(with), fds, sizeof fds);
    if (sendmsg(here, &message, MSG_NOSIGNAL) != sizeof head) return 0;
    for (size_t sent = 0; sent < size;) {
        ssize_t more = send(here, text + sent, size - sent, MSG_NOSIGNAL);
        if (more < 0 && errno != EINTR) return 0;
        sent += more > 0 ? (size_t)more : 0;
    }
    close(life[0]);
    return 1;
}

static int end_by_signal(void) {
    signal(forwarded, SIG_DFL);
    raise(forwarded);
    return 128 + forwarded;
}

/* End as the process ended that carried out the command. */
static int end_as_worker(int here) {
    unsigned char status;
    ssize_t size;
    while ((size = recv(here, &status, 1, 0)) < 0 && errno == EINTR) {}
    if (size == 1) return status;
    if (forwarded) return end_by_signal();
    fprintf(stderr, "hn: the process of this command was killed; see what it has done: hn job list\n");
    return 128 + SIGKILL;
}

/* Find the Python of this installation: beside this program, or, if that is no virtual environment, the one that
 * pip has written into the script `headnode` beside it (pip install --user, or into a Python of the system). */
static int find_python(void) {
    char path[PATH_MAX + 16], line[PATH_MAX] = "";
    ssize_t size = readlink("/proc/self/exe", python, PATH_MAX);
    if (size <= 0 || size == PATH_MAX) return 0;
    python[size] = 0;
    char *file = strrchr(python, '/') + 1;
    int folder = (int)(file - python);
    strcpy(file, "python3");
    snprintf(path, sizeof path, "%.*s../pyvenv.cfg", folder, python);
    if (!access(path, F_OK)) return 1;
    snprintf(path, sizeof path, "%.*sheadnode", folder, python);
    FILE *script = fopen(path, "re");
    if (!script) return 1;
    if (fgets(line, sizeof line, script) && !strncmp(line, "#!/", 3)) {
        line[strcspn(line, " \n")] = 0;
        if (strcmp(line + 2, "/bin/sh")) strcpy(python, line + 2);
    }
    fclose(script);
    return 1;
}

int main(int argc, char **argv) {
    char path[PATH_MAX];
    const char *called = (const char *)getauxval(AT_EXECFN); /* what the kernel gives a script as its own name */
    if (argc < 1 || !called || !find_python()) return fprintf(stderr, "hn: it cannot find itself: is /proc mounted?\n"), 1;
    int directory = may_be_handed(argc, argv, called) && make_name() ? open_directory(path, sizeof path) : -1;
    if (directory >= 0) {
        int here = call(directory);
        if (here >= 0) {
            forward_signals();
            if (send_command(here, argc, argv, called) || forwarded) return end_as_worker(here);
            close(here); /* what it has read is no whole request: it carries out nothing */
        }
        start_resident(directory, path);
    }
    char **words = malloc((size_t)(argc + 5) * sizeof *words), *before[] = {python, "-P", "-c", PLAIN, (char *)called};
    if (!words) return perror("hn"), 1;
    memcpy(words, before, sizeof before);
    memcpy(words + 5, argv + 1, (size_t)argc * sizeof *words);
    if (forwarded) return end_by_signal();
    execv(python, words);
    const char *fix = errno == EACCES ? "install Headnode and its Python where every user may read them" : "install Headnode again: make install";
    return fprintf(stderr, "hn: %s: %s; %s\n", python, strerror(errno), fix), 127;
}

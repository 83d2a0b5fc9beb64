/* Loaded before libc: foretrain's children are gone without a word, as where somebody else waits
 * for them; other programs' are not. */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t waitpid(pid_t pid, int *status, int options)
{
    if (strcmp(program_invocation_short_name, "foretrain") != 0)
        return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
    errno = ECHILD;
    return -1;
}

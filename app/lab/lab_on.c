#include "app/lab/lab_on.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/lab/lab_net.h"

static bool is_called(const char *program, const char *name)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, name) == 0;
}

bool lab_is_on(const char *program)
{
    return is_called(program, LAB_ON) || is_called(program, LAB_AGENT);
}

/* The value of a word after a shell's removal of quotes. */
static char *unquote(char *word)
{
    size_t length = strlen(word);
    if (length < 2 || *word != '"' || word[length - 1] != '"')
        return word;
    word[length - 1] = '\0';
    return word + 1;
}

/* mpirun's words are a line for a remote shell, split at blanks: values in quotes, and before the
 * daemon the set-up for the user's shell or mpirun's folder ("( test ! -r ./.profile || .
 * ./.profile; orted ... )", "PATH=... ; export PATH;/folder/prted ..."), which this environment
 * already has.  Source: Open MPI 4.1, orte/mca/plm/rsh/plm_rsh_module.c, setup_launch(), and 5.0.
 * @return the first word of the command, or NULL: there is no daemon. */
static char **find_daemon(char **word)
{
    for (; *word; word++) {
        char *name = *word;
        for (char *end; *(end = name + strcspn(name, " ;"));)
            name = end + 1;
        if (!is_called(name, "orted") && !is_called(name, "prted"))
            continue;
        *word = name;
        for (char **rest = word + 1; *rest; rest++)
            *rest = rest[1] || strcmp(*rest, ")") != 0 ? unquote(*rest) : NULL;
        return word;
    }
    return NULL;
}

int lab_on(char **argument)
{
    bool agent = is_called(*argument++, LAB_AGENT);
    while (*argument && **argument == '-') /* of a remote shell */
        argument++;
    const char *host = *argument ? *argument++ : NULL;
    char **command = host && agent ? find_daemon(argument) : argument;
    if (!host || !command || !*command) {
        fprintf(stderr, "usage: %s HOST COMMAND..., in a lab\n", agent ? LAB_AGENT : LAB_ON);
        return 64;
    }
    if (lab_enter("netns", host, CLONE_NEWNET) || lab_enter("uts", host, CLONE_NEWUTS)) {
        fprintf(stderr, "error: there is no host %s here: %s\n", host, strerror(errno));
        return 127;
    }
    execvp(*command, command);
    fprintf(stderr, "error: cannot start %s: %s\n", *command, strerror(errno));
    return 127;
}

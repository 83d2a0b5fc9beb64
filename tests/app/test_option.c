#include "app/cli/command.h"

#include "tests/test.h"

enum { MANY = 100 };

static char name[MANY][8]; /* "x0" to "x99" */

static void fill_names(void)
{
    for (int i = 0; i < MANY; i++)
        snprintf(name[i], sizeof(name[i]), "x%d", i);
}

static void is_told(const char *message)
{
    assert_int_equal(err.exit_code, 64);
    assert_string_equal(err.text, message);
}

TEST(the_nearest_of_many_options_is_named)
{
    struct option table[MANY + 1] = {0};
    bool flag = false;
    fill_names();
    for (int i = 0; i < MANY; i++)
        table[i] = (struct option){.name = name[i]};
    HELD(texts) rest = {0}, given = {0};
    char word[] = "--x999";
    assert_int_equal(option_parse(table, 1, (char *[]){word}, &flag, &rest, &given, &err), -1);
    is_told("unknown option '--x999'; did you mean '--x99'?\n");
}

TEST(the_nearest_of_many_commands_is_named)
{
    struct command command[MANY] = {0};
    const struct command *list[MANY + 1] = {0};
    fill_names();
    for (int i = 0; i < MANY; i++) {
        command[i].name = name[i];
        list[i] = &command[i];
    }
    const struct command all = {.sub = list};
    HELD(text) out = {0};
    char word[] = "x999";
    command_answer("program", &all, 1, (char *[]){word}, &out, &err);
    is_told("unknown command 'x999'; did you mean 'x99'?\n");
}

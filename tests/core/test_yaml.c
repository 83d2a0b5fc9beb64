#include "tests/core/own.h"
#include "tests/folder.h"
#include "tests/test.h"

static struct document *read_text(const char *text)
{
    struct document *document = yaml_read_text("t.yaml", text, &err);
    assert_ok(document, err);
    return document;
}

TEST(nodes_know_where_they_stand)
{
    OWN(document) *document = read_text("a: 1\n"
                                        "long key:   {b: [x, 'y z'], c: }\n"
                                        "list:\n"
                                        "  - p\n");
    const struct node *root = yaml_root(document);
    assert_int_equal(root->kind, NODE_MAPPING);
    assert_int_equal(root->child_count, 3);
    const struct node *flow = node_get(root, "long key");
    assert_int_equal(flow->key_origin.line, 2);
    assert_int_equal(flow->key_origin.column, 1);
    assert_int_equal(flow->key_origin.width, 8);
    assert_int_equal(flow->origin.column, 13);
    assert_int_equal(flow->origin.width, 20);
    assert_string_equal(flow->origin.file, "t.yaml");
    assert_string_equal(flow->origin.source, "long key:   {b: [x, 'y z'], c: }");
    const struct node *item = node_get(flow, "b")->child[1];
    assert_string_equal(item->text, "y z");
    assert_string_equal(node_get(flow, "c")->text, "");
    assert_int_equal(node_get(root, "list")->child[0]->origin.line, 4);
    assert_int_equal(node_get(root, "list")->child[0]->origin.column, 5);
    assert_null(node_get(root, "none"));
    assert_null(node_get(item, "none"));
}

TEST(json_is_read_as_well)
{
    OWN(document) *document =
        read_text("{\n\t\"a\": [1, true, null],\n\t\"b\": {\"c\": \"\\u00e9\"}\n}");
    const struct node *root = yaml_root(document);
    assert_string_equal(node_get(root, "a")->child[1]->text, "true");
    assert_string_equal(node_get(node_get(root, "b"), "c")->text, "\xc3\xa9");
}

TEST(every_style_of_text_is_read)
{
    OWN(document) *document = read_text("folded: >\n  one\n  two\n\n  three\n"
                                        "kept: |-\n  one\n   two\n"
                                        "plain: one\n  two\n"
                                        "single: 'it''s\n  two'\n"
                                        "quotes: ''\n"
                                        "double: \"tab\\tline\\n\\u20ac\\x41 \\\n  joined\"\n");
    const char *const texts[] = {
        "one two\nthree\n", "one\n two", "one two",
        "it's two",         "",          "tab\tline\n\342\202\254A joined"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(yaml_root(document)->child[i]->text, texts[i]);
}

TEST(messages_underline_the_value)
{
    OWN(document) *document = read_text("x: 1\n\xc3\xa9t\xc3\xa9: {a: bcd}\n");
    const struct node *value = node_get(yaml_root(document)->child[1], "a");
    assert_int_equal(origin_error(&value->origin, &err, "not %d\n", 5), -1);
    assert_string_equal(err.text, "t.yaml:2:10: error: not 5 \n"
                                  "  \xc3\xa9t\xc3\xa9: {a: bcd}\n"
                                  "           ^~~\n");
}

TEST(long_lines_are_shown_around_the_fault)
{
    HELD(text) text = {0};
    text_add(&text, "{a: \"%01000d\", b: wrong, c: \"%01000d\"}", 0, 0);
    OWN(document) *document = read_text(text.data);
    origin_error(&node_get(yaml_root(document), "b")->origin, &err, "x");
    const char *source = strchr(err.text, '\n') + 3, *caret = strchr(source, '\n') + 3;
    assert_true(caret - source < 110);
    assert_memory_equal(source + (strchr(caret, '^') - caret), "wrong", 5);
}

TEST(aliases_are_copies)
{
    OWN(document) *document = read_text("a: &x {b: 1}\nc: *x\nd: &x 2\ne: [*x]\n");
    const struct node *root = yaml_root(document);
    assert_string_equal(node_get(node_get(root, "c"), "b")->text, "1");
    assert_int_equal(node_get(root, "c")->origin.line, 1);
    assert_string_equal(node_get(root, "e")->child[0]->text, "2");
}

TEST(bounds_hold_exactly)
{
    for (int depth = 62; depth <= 66; depth++) {
        HELD(text) text = {0};
        text_add(&text, "a: ");
        for (int i = 0; i < depth; i++)
            text_add(&text, "[");
        for (int i = 0; i < depth; i++)
            text_add(&text, "]");
        err_release(&err);
        OWN(document) *document = yaml_read_text("t.yaml", text.data, &err);
        assert_int_equal(document != NULL, depth + 1 <= 64); /* the mapping is the first level */
    }
}

TEST(a_key_has_at_most_64_parts)
{
    static const int counts[] = {64, 65, 50000};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        OWN(document) *document = read_text("a: {}");
        HELD(text) text = {0};
        for (int part = 0; part < counts[i]; part++)
            text_add(&text, "%sa", part ? "." : "");
        text_add(&text, "=1");
        assert_int_equal(yaml_set(document, text.data, &err), counts[i] > 64 ? -1 : 0);
        if (counts[i] > 64)
            assert_message(&err, 65, "parts; at most 64");
    }
}

TEST(refuses_every_kind_of_bad_utf8)
{
    const char *const bad[] = {"\x80",
                               "\xc0\x80",
                               "\xc3",
                               "\xc3(",
                               "\xe0\x80\x80",
                               "\xed\xa0\x80",
                               "\xe2\x82",
                               "\xf0\x80\x80\x80",
                               "\xf4\x90\x80\x80",
                               "\xf8\x88\x80\x80",
                               "\xff"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        AUTOFREE char *text = base_format("a: 1\nb: '%s'\n", bad[i]);
        assert_null(yaml_read_text("t.yaml", text, &err));
        assert_message(&err, 65, "t.yaml:2:5: error: byte 0x");
    }
    const char *const good[] = {"\xc2\x80", "\xe0\xa0\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbd"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        AUTOFREE char *text = base_format("b: '%s'\n", good[i]);
        yaml_free(read_text(text));
    }
}

static void sets(struct document *document, const char *assignment)
{
    assert_ok(!yaml_set(document, assignment, &err), err);
}

TEST(assignments_replace_and_add)
{
    OWN(document) *document = read_text("a: {b: 1}\nlist: [{x: 1}, {x: 2}]\n");
    const struct node *root = yaml_root(document);
    sets(document, "a.b=25 GB/s");
    sets(document, "list.1.x=[p, {q: r}]");
    sets(document, "new.deep.key=v=w");
    sets(document, "a.b2= 3");
    const struct node *b = node_get(node_get(root, "a"), "b");
    assert_string_equal(b->text, "25 GB/s");
    assert_string_equal(b->origin.file, "--set");
    assert_string_equal(b->origin.source, "a.b=25 GB/s");
    assert_int_equal(b->origin.line, 0);
    assert_int_equal(b->origin.column, 5);
    assert_string_equal(node_get(node_get(root, "list")->child[1], "x")->child[0]->text, "p");
    assert_string_equal(node_get(node_get(node_get(root, "new"), "deep"), "key")->text, "v=w");
    assert_string_equal(node_get(node_get(root, "a"), "b2")->text, "3");
    assert_has(yaml_source(document), "list.1.x=[p, {q: r}]");
}

TEST(assignments_that_lead_nowhere_are_refused)
{
    const char *const cases[][2] = {
        {"a", "key=value is expected"},
        {"", "key=value is expected"},
        {"=1", "a part of the key is empty"},
        {"a..b=1", "a part of the key is empty"},
        {"a.=1", "a part of the key is empty"},
        {"a.b=", "there is no value here"},
        {"a.b.c=1", "inside the single value"},
        {"list.2=1", "'2' is not an index"},
        {"list.-1=1", "'-1' is not an index"},
        {"list.x=1", "'x' is not an index"},
        {"list.99999999999999999999=1", "is not an index"},
        {"a.b=[1", "--set: error: "},
        {"a.b=1\nc: 2", "key=value is expected"},
        {"a.b=\xff", "byte 0xff"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OWN(document) *document = read_text("a: {b: 1}\nlist: [1, 2]\n");
        err_release(&err);
        assert_int_equal(yaml_set(document, cases[i][0], &err), -1);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("'%s' gave:\n%s", cases[i][0], err.text);
    }
}

/* ---- files ---- */

static void write_file(void **state, const char *name, const char *text)
{
    fixture_write(fixture_path(state, "%s", name), text, (int64_t)strlen(text));
}

static struct document *read_file(void **state, const char *name)
{
    return yaml_read_file(NULL, fixture_path(state, "%s", name), NULL, &err);
}

TEST(null_takes_a_key_away)
{
    OWN(document) *document = read_text("a: {x: 1, y: [1, 2]}\nb: 2\n");
    sets(document, "a.x=null");
    sets(document, "a.new=~");
    const struct node *a = node_get(yaml_root(document), "a");
    assert_null(node_get(a, "x"));
    assert_null(node_get(a, "new"));
    assert_non_null(node_get(a, "y"));
    assert_non_null(node_get(yaml_root(document), "b"));
}

TEST(an_assignment_names_items_by_index_name_or_all)
{
    OWN(document) *document = read_text("list: [{name: a, x: 1}, {name: b, x: 2, y: [3, 4]}]\n");
    const struct node *list = node_get(yaml_root(document), "list");
    sets(document, "list[1].y[0]=7");
    assert_string_equal(node_get(list->child[1], "y")->child[0]->text, "7");
    sets(document, "list.b.x=8");
    assert_string_equal(node_get(list->child[1], "x")->text, "8");
    assert_int_equal(yaml_set_below(document, "t.", "t.list[*].x=9", &err), 0);
    for (int32_t i = 0; i < 2; i++)
        assert_string_equal(node_get(list->child[i], "x")->text, "9");
    sets(document, "list[*].x=null");
    assert_null(node_get(list->child[0], "x"));
    static const char *const wrong[] = {"list[0=1",    "list]=1",    "list[]=1",    "list[0]x=1",
                                        "list[2].x=1", "list.c.x=1", "list[-1].x=1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(yaml_set(document, wrong[i], &err), -1);
        assert_has(err.text, "--set: error: ");
        err_release(&err);
    }
}

TEST_IN_FOLDER(a_file_replaces_the_keys_of_the_one_it_extends)
{
    write_file(state, "base.yaml", "a: {x: 1, y: 2}\nlist: [1, 2, 3]\nkept: yes\ngone: {b: 1}\n");
    write_file(state, "over.yaml", "extends: base.yaml\na: {y: 3, z: 4}\nlist: [9]\ngone: null\n");
    OWN(document) *document = read_file(state, "over.yaml");
    assert_non_null(document);
    const struct node *root = yaml_root(document), *a = node_get(root, "a");
    assert_string_equal(node_get(a, "x")->text, "1");
    assert_string_equal(node_get(a, "y")->text, "3");
    assert_string_equal(node_get(a, "z")->text, "4");
    assert_int_equal(node_get(root, "list")->child_count, 1);
    assert_string_equal(node_get(root, "kept")->text, "yes");
    assert_null(node_get(root, "extends"));
    assert_null(node_get(root, "gone"));
    assert_has(node_get(a, "x")->origin.file, "base.yaml");
    assert_has(node_get(a, "y")->origin.file, "over.yaml");
    assert_has(yaml_source(document), "kept: yes");
}

TEST_IN_FOLDER(a_chain_of_files_has_an_end)
{
    enum { FILES = 66 };
    for (int i = 0; i < FILES; i++) {
        AUTOFREE char *name = base_format("%d.yaml", i);
        AUTOFREE char *text = base_format("extends: %d.yaml\n", i + 1);
        write_file(state, name, i == FILES - 1 ? "a: 1\n" : text);
    }
    assert_null(read_file(state, "0.yaml"));
    assert_message(&err, 65, "63.yaml:1:10: error: ");
    OWN(document) *document = read_file(state, "2.yaml");
    assert_non_null(document);
}

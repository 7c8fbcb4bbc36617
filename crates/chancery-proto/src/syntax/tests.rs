//! The results of the readers and the deserializer, for good and bad texts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// A tree on one line: texts in quotes, everything else bare.
fn show(node: &TreeNode<'_>) -> String {
    match node.value() {
        TreeValue::Null => "null".to_owned(),
        TreeValue::Bool(value) => value.to_string(),
        TreeValue::Number(text) => text.to_string(),
        TreeValue::Text(text) => format!("{text:?}"),
        TreeValue::Word(text) => format!("word {text}"),
        TreeValue::Bytes(bytes) => format!("{bytes:x?}"),
        TreeValue::Sequence(nodes) => {
            format!("[{}]", nodes.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        TreeValue::Mapping(entries) => {
            let entry = |entry: &MapEntry<'_>| format!("{}: {}", entry.key, show(&entry.node));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        TreeValue::Shared(_) => unreachable!(),
    }
}

/// The documents of a text, then its faults.
fn outcome(documents: &Documents<'_>) -> String {
    let roots = documents.roots.iter().map(show);
    roots
        .chain(documents.faults.first().iter().map(Fault::to_string))
        .collect::<Vec<_>>()
        .join(" | ")
}

#[track_caller]
fn yaml(text: &str, expected: &str) {
    assert_eq!(outcome(&read_yaml(text)), expected);
}

#[track_caller]
fn json(text: &str, expected: &str) {
    assert_eq!(outcome(&read_json(text)), expected);
}

#[track_caller]
fn text(text: &str, expected: &str) {
    assert_eq!(outcome(&read_text(text)), expected);
}

#[test]
fn a_text_may_hold_several_documents() {
    yaml(
        "a: 1\n---\n- x\n- 'y'\n...\n---\nb: {c: [~, true]}\n",
        r#"{a: 1} | ["x", "y"] | {b: {c: [null, true]}}"#,
    );
    yaml("", "");
    yaml("# only a comment\n", "");
    yaml("---\n---\n", "null | null");
    yaml("\u{feff}a: 1", "{a: 1}");
    yaml("a: 1\r\nb: 2\r\n", "{a: 1, b: 2}");
}

#[test]
fn scalars_are_what_yaml_1_2_says() {
    yaml(
        "[yes, 'true', \"1\", 010, 1_000, 0x1F, .inf, null, 2026-01-01]",
        r#"["yes", "true", "1", 010, "1_000", 0x1F, .inf, null, "2026-01-01"]"#,
    );
    yaml("a: |\n  1\n  2\nb: >-\n  x\n  y\n", "{a: \"1\\n2\\n\", b: \"x y\"}");
    yaml("1: a\ntrue: b\n", r#"{1: "a", true: "b"}"#);
}

#[test]
fn keys_and_values_know_their_place() {
    let documents = read_yaml("a:\n  - é: x\n    b: {c: 1}\n");
    let inner = &documents.roots[0].entries().unwrap()[0].node;
    let TreeValue::Sequence(nodes) = inner.value() else { panic!("{inner:?}") };
    let [first, second] = nodes[0].entries().unwrap() else { panic!("{nodes:?}") };
    let place = |position: Position| (position.line, position.column);
    assert_eq!(place(first.key_position), (2, 5));
    assert_eq!(place(first.node.position()), (2, 8));
    assert_eq!(place(second.key_position), (3, 5));
    assert_eq!(place(second.node.entries().unwrap()[0].node.position()), (3, 12));
}

#[test]
fn a_duplicate_key_is_told_with_both_places() {
    yaml(
        "a: 1\nb:\n  c: 1\n  d: 2\n  c: [3]\na: 4\n",
        "{a: 1, b: {c: 1, d: 2}} \
         | line 5, column 3: b.c: the key `c` is given twice; it was first given at line 3, column 3 \
         | line 6, column 1: a: the key `a` is given twice; it was first given at line 1, column 1",
    );
    json(
        "{\"a\": 1,\n \"a\": {\"b\": 2}}",
        "{a: 1} | line 2, column 2: a: the key `a` is given twice; it was first given at line 1, column 2",
    );
    let mut large: String = (0..100).map(|key| format!("k{key}: 1\n")).collect();
    large.push_str("k7: 1\nk99: 1\n");
    let documents = read_yaml(&large);
    let faults = documents.faults.first();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[1].message.contains("line 100, column 1"), "{}", faults[1]);
}

#[test]
fn aliases_repeat_their_anchor_of_the_same_document() {
    yaml(
        "a: &x {b: 1}\nc: *x\nd: [*x, &y z, *y]\n*y : 1\n",
        r#"{a: {b: 1}, c: {b: 1}, d: [{b: 1}, "z", "z"], z: 1}"#,
    );
    yaml("a: *x\n", "line 1, column 4: a: no YAML: while parsing node, found unknown anchor");
    let conflict = "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n";
    let documents = read_yaml(conflict);
    let hint = documents.faults.first()[0].hint.clone().unwrap_or_default();
    assert!(hint.starts_with("line 2 is a marker of a merge conflict"), "{hint}");
    yaml(
        "a: &x [*x]\n",
        "line 1, column 8: a[0]: the alias stands inside of what it repeats, or in another document",
    );
    let faults = read_yaml("&x a\n---\n*x\n").faults;
    assert_eq!(faults.count(), 1, "{faults:?}");
}

#[test]
fn aliases_cannot_make_a_small_file_large() {
    let mut bomb = String::from("l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let below = format!("*l{}", level - 1);
        bomb.push_str(&format!("l{level}: &l{level} [{}]\n", [&*below; 10].join(", ")));
    }
    let documents = read_yaml(&bomb);
    let faults = documents.faults.first();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].message, "aliases repeat more than 16 MiB");
    assert_eq!(faults[0].position.unwrap().line, 6);
    // One large text, repeated often.
    let large = format!("a: &a '{}'\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 17].join(", "));
    assert_eq!(read_yaml(&large).faults.count(), 1);
    let fewer = format!("a: &a '{}'\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 15].join(", "));
    assert_eq!(read_yaml(&fewer).faults.first(), []);
}

#[test]
fn nesting_is_bounded_and_aliases_do_not_help() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for read in [read_yaml, read_json] {
        assert_eq!(read(&nested(128)).faults.first(), []);
        assert_eq!(read(&nested(129)).faults.first()[0].message, "nested more than 128 deep");
        assert_eq!(read(&"[".repeat(100_000)).faults.count(), 1);
    }
    assert_eq!(
        read_yaml(&"- ".repeat(100_000)).faults.first()[0].message,
        "nested more than 128 deep"
    );
    assert_eq!(
        read_text(&"a{".repeat(100_000)).faults.first()[0].message,
        "nested more than 128 deep"
    );
    let by_alias = format!("a: &a {}\nb: {}*a{}\n", nested(70), "[".repeat(70), "]".repeat(70));
    assert_eq!(read_yaml(&by_alias).faults.first()[0].message, "nested more than 128 deep");
    let fitting = format!("a: &a {}\nb: {}*a{}\n", nested(60), "[".repeat(60), "]".repeat(60));
    assert_eq!(read_yaml(&fitting).faults.first(), []);
}

#[test]
fn what_yaml_files_should_not_use_is_refused() {
    let faults = read_yaml("a: &x {b: 1}\nc:\n  <<: *x\n").faults;
    assert_eq!(
        faults.first()[0].to_string(),
        "line 3, column 3: c: merge keys (`<<`) are not part of YAML 1.2"
    );
    assert!(faults.first()[0].hint.as_ref().unwrap().contains("alias"));
    yaml("'<<': 1\n", "{<<: 1}");
    yaml("? [a]\n: 1\n", "line 1, column 3: a key must be a plain scalar");
    yaml(
        "a: !!str 1\nb: !!int 2\nc: !!map {d: !!seq []}\ne: ! 5\n",
        r#"{a: "1", b: 2, c: {d: []}, e: "5"}"#,
    );
    yaml("a: !!int x\n", "line 1, column 4: a: the tag `!!int` does not fit this value");
    yaml("a: !!binary eA==\n", "line 1, column 4: a: the tag `!!binary` does not fit this value");
    yaml("a: !secret x\n", "line 1, column 4: a: the tag `!secret` means nothing here");
    yaml("- !!map []\n", "line 1, column 3: [0]: the tag `!!map` does not fit this value");
}

#[test]
fn what_is_no_yaml_says_where_and_spares_the_documents_before() {
    let documents = read_yaml("a: 1\n---\nb: [1,\n");
    assert_eq!(documents.roots.len(), 1);
    assert!(
        documents.faults.first()[0].message.starts_with("no YAML: "),
        "{}",
        documents.faults.first()[0]
    );
    assert!(documents.faults.first()[0].position.unwrap().line >= 3);
    let fault = read_yaml("a:\n\tb: 1\n").faults.into_first().unwrap();
    assert_eq!(fault.position.unwrap().line, 2, "{fault}");
    let fault = read_yaml("a: @x\n").faults.into_first().unwrap();
    assert_eq!(fault.position.unwrap(), Position { line: 1, column: 4 }, "{fault}");
}

#[test]
fn json_is_read_by_its_own_rules() {
    json(
        " {\"a\":\t[1, -0.5e+3, \"x\\/\\u00e9\\n\", true, false, null, {}, []]} \n",
        "{a: [1, -0.5e+3, \"x/é\\n\", true, false, null, {}, []]}",
    );
    json(r#""\ud83d\ude00 \" \\ \b\f\r\t""#, r#""😀 \" \\ \u{8}\u{c}\r\t""#);
    json("", "");
    json(" \n", "");
    json("{\"a\" : \"yes\", \"<<\": 1}", "{a: \"yes\", <<: 1}");
    json("\u{feff}{\"a\u{e9}\\n\": 1}", "{a\u{e9}\n: 1}");
}

#[test]
fn what_is_no_json_says_where() {
    for (text, expected) in [
        ("{", "line 1, column 2: no JSON: the text ends where a key in double quotes should come"),
        ("[1,\n2", "line 2, column 2: no JSON: the text ends where `,` or `]` should come"),
        ("{\"a\": [1, 2,]}", "line 1, column 13: a[2]: no JSON: expected a value, found `]`"),
        ("{\"a\":1,}", "line 1, column 8: no JSON: expected a key in double quotes, found `}`"),
        ("{'a': 1}", "line 1, column 2: no JSON: expected a key in double quotes, found `'`"),
        ("{\"a\" 1}", "line 1, column 6: no JSON: expected `:`, found `1`"),
        ("// x\n1", "line 1, column 1: no JSON: expected a value, found `/`"),
        ("01", "line 1, column 2: no JSON: expected the end of a number, found `1`"),
        ("1.", "line 1, column 3: no JSON: the text ends where a digit should come"),
        ("+1", "line 1, column 1: no JSON: expected a value, found `+`"),
        ("NaN", "line 1, column 1: no JSON: expected a value, found `N`"),
        ("nul", "line 1, column 1: no JSON: expected a value, found `n`"),
        ("\"é\n\"", "line 1, column 3: no JSON: expected `\"` at the end of a string, found `\\n`"),
        ("\"\\x\"", "line 1, column 3: no JSON: expected an escape that JSON knows, found `x`"),
        (
            "\"\\u12\"",
            "line 1, column 4: no JSON: expected four hexadecimal digits after `\\u`, found `1`",
        ),
        ("\"\\ud800\"", "line 1, column 8: no JSON: half of a surrogate pair is no character"),
        ("\"\\udc00\"", "line 1, column 8: no JSON: half of a surrogate pair is no character"),
        (
            "\"\\ud800\\u0041\"",
            "line 1, column 14: no JSON: half of a surrogate pair is no character",
        ),
        ("{} {}", "line 1, column 4: no JSON: expected the end of the file, found `{`"),
    ] {
        json(text, expected);
    }
}

#[test]
fn protobuf_text_keeps_repeated_keys_and_the_brackets_of_any() {
    text(
        "a: 1 # one\nb { c: 'x' \"y\\x41\\102\\u00e9\" } b <c: -2>, d: [1, {e: WORD}]; f: -inf",
        "{a: 1, b: {c: \"xyABé\"}, b: {c: -2}, d: [1, {e: word WORD}], f: -.inf}",
    );
    text(
        "[type.googleapis.com/a.b_c.D] { a: 0x1F b: 017 c: 1.5f d: -0x10 e: 1e+3 }",
        "{[type.googleapis.com/a.b_c.D]: {a: 31, b: 15, c: 1.5, d: -16, e: 1e+3}}",
    );
    text("a: '\\xff\\0'", "{a: [ff, 0]}");
    text("# nothing\n", "");
}

#[test]
fn what_is_no_protobuf_text_says_where() {
    for (input, expected) in [
        (
            "a {",
            "line 1, column 4: a: no protobuf text: it ends where the name of a field should come",
        ),
        ("a 1", "line 1, column 3: a: no protobuf text: expected `:` or `{`, found `1`"),
        ("a: }", "line 1, column 4: a: no protobuf text: expected a value, found `}`"),
        (
            "a { b: 1 >",
            "line 1, column 10: a: no protobuf text: expected the name of a field, found `>`",
        ),
        (
            "a: 'x\n'",
            "line 1, column 6: a: no protobuf text: expected a quote at the end of a string, found `\\n`",
        ),
        ("a: 1x", "line 1, column 6: a: no protobuf text: `1x` is no number"),
        ("a: 09", "line 1, column 6: a: no protobuf text: `09` is no number"),
        ("a: [1 2]", "line 1, column 7: a: no protobuf text: expected `,` or `]`, found `2`"),
        ("[x", "line 1, column 3: no protobuf text: it ends where `]` should come"),
        (
            "a: '\\400'",
            "line 1, column 6: a: no protobuf text: expected the code of a byte, found `4`",
        ),
    ] {
        text(input, expected);
    }
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Config {
    listen: Option<std::net::SocketAddr>,
    max_streams: u32,
    limits: Limits,
    groups: BTreeMap<String, Vec<Rule>>,
    #[serde(rename = "log")]
    log: LogFormat,
    ratio: f64,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    names: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum Rule {
    Any,
    Cluster(String),
    Metadata { key: String, value: Option<i64> },
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum LogFormat {
    #[default]
    Text,
    Json,
}

#[test]
fn configuration_is_any_type() {
    let text = "listen: 127.0.0.1:18000\nmax-streams: 7\nlimits:\ngroups:\n  a: [any, {cluster: x}]\n  \
                b:\n  - metadata: {key: k, value: -1}\nlog: json\nratio: 1\n";
    let config: Config = from_yaml(text).unwrap();
    assert_eq!(config.max_streams, 7);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.groups["a"], [Rule::Any, Rule::Cluster("x".to_owned())]);
    let metadata = Rule::Metadata { key: "k".to_owned(), value: Some(-1) };
    assert_eq!(config.groups["b"], [metadata]);
    assert_eq!(config.log, LogFormat::Json);
    assert_eq!(from_yaml::<Config>("{}").unwrap(), Config::default());
    assert_eq!(from_yaml::<Vec<u8>>("[1, 0x10]").unwrap(), [1, 16]);
}

#[test]
fn what_configuration_does_not_allow_is_pointed_at() {
    for (text, expected) in [
        ("listen: x\n", "line 1, column 9: listen: invalid socket address syntax"),
        ("max-stream: 1\n", "line 1, column 1: max-stream: unknown key `max-stream`"),
        (
            "max-streams: -1\n",
            "line 1, column 14: max-streams: invalid value: integer `-1`, expected u32",
        ),
        (
            "limits: {names: x}\n",
            "line 1, column 17: limits.names: invalid type: string \"x\", expected u64",
        ),
        ("limits:\n  nmes: 1\n", "line 2, column 3: limits.nmes: unknown key `nmes`"),
        (
            "groups:\n  a:\n  - any\n  - clster: 1\n",
            "line 4, column 5: groups.a[1]: unknown value `clster`",
        ),
        (
            "groups: {a: [{metadata: {value: 1}}]}\n",
            "line 1, column 25: groups.a[0].metadata: the key `key` is missing",
        ),
        ("log: xml\n", "line 1, column 6: log: unknown value `xml`"),
        ("log: [json]\n", "line 1, column 6: log: expected one name, or one key with a value"),
        (
            "log: json\nlog: text\n",
            "line 2, column 1: log: the key `log` is given twice; it was first given at line 1, column 1",
        ),
        ("a: 1\n---\nb: 1\n", "line 3, column 1: a second document; expected one"),
        ("- 1\n", "line 1, column 1: invalid type: sequence, expected struct Config"),
        (
            "log: {\n",
            "line 2, column 1: log: no YAML: while parsing a node, did not find expected node content",
        ),
    ] {
        assert_eq!(from_yaml::<Config>(text).unwrap_err().to_string(), expected, "{text}");
    }
    for text in ["", " \n", "# nothing\n", "# nothing\n---\n", "null\n"] {
        let told = from_yaml::<Config>(text).unwrap_err();
        assert_eq!(told.message, "the file says nothing: it is empty, or holds comments alone");
        assert!(told.hint.unwrap().contains("`{}`"));
    }
    let hint = |text| from_yaml::<Config>(text).unwrap_err().hint.unwrap();
    assert_eq!(hint("max-stream: 1\n"), "did you mean `max-streams`?");
    assert_eq!(hint("log: xml\n"), "expected one of `text`, `json`");
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "[ \\n\\t:,\\-?&*!|>'\"{}\\[\\]<>a01.#%@`~éx]{0,60}") {
        read_yaml(&text);
        read_json(&text);
        read_text(&text);
        let _ = from_yaml::<Config>(&text);
    }

    /// Valid JSON gives the same tree when it is read as YAML, so the two readers check each other.
    #[test]
    fn json_and_yaml_agree_on_json(value in json_value()) {
        let from_json = read_json(&value);
        prop_assert_eq!(from_json.faults.first(), &[]);
        prop_assert_eq!(outcome(&read_yaml(&value)), outcome(&from_json));
    }
}

/// A JSON text without the parts that YAML reads differently.
fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,2})?",
        "\"[a-zé \\-:#]{0,8}(\\\\n|\\\\u00e9|\\\\\"|\\\\/)?\"",
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|values| format!("[{}]", values.join(", "))),
            prop::collection::btree_map("[a-z]{1,5}", inner, 0..5).prop_map(|entries| {
                let entry = |(key, value)| format!("\"{key}\": {value}");
                format!("{{{}}}", entries.into_iter().map(entry).collect::<Vec<_>>().join(",\n "))
            }),
        ]
    })
}

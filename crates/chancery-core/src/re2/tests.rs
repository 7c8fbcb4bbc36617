//! Patterns that RE2 takes, and those that it refuses. Not here: what they match, which the crate that compiles
//! them tests.

use super::PatternFault::*;
use super::*;

#[test]
fn patterns_that_envoy_1_40_takes_are_taken() {
    let good = [
        "",
        "/a/.*",
        "a|b|",
        "(a|b)+?",
        "a{2}",
        "a{2,}",
        "a{0,3}",
        "a{,5}",
        "a{01}",
        "a{",
        "{",
        "x{a}",
        r"a\_b",
        r"\Qa(*\E+",
        r"\pZ\p{Greek}\p{^Lu}",
        "^*",
        "(?)a",
        "(?i-s:a)",
        "(?i)a",
        "[]a]",
        "[^]a]",
        r"\10",
        r"\x41\x{ff}",
        "[--a]",
        "[a-b-c]",
        "[a-]",
        r"[\d-z]",
        r"[\]\-\x41]",
        "(?P<n>a)(?P<n>b)",
        "(?<n>a)",
        r"\C",
        "[[:^alpha:][:digit:]]",
        "[[=a=]]",
        "(a{10}){100}",
        "]",
        "}",
        "a]b",
        r"\.\/\-",
        r"^/v[0-9]+(\.[0-9]+)?/.*$",
        r"\A\bé+\z",
        "[é-ü]",
    ];
    for pattern in good {
        assert_eq!(translated(pattern, Alphabet::Latin1).err(), None, "{pattern}");
    }
}

#[test]
fn patterns_that_envoy_1_40_refuses_are_found() {
    let bad = [
        ("a(b", MissingParenthesis),
        ("a)", UnexpectedParenthesis),
        ("*a", NothingToRepeat),
        ("(a|*)", NothingToRepeat),
        ("(?i)*", NothingToRepeat),
        ("a**", RepeatedTwice),
        ("a*??", RepeatedTwice),
        ("a*{2}", RepeatedTwice),
        ("a{1001}", RepeatSize),
        ("a{100000}", RepeatSize),
        ("a{2,1}", RepeatSize),
        ("a{1,0}", RepeatSize),
        ("(a{1000}){1000}", RepeatSize),
        ("(a{10}){101}", RepeatSize),
        (r"(a)\1", Escape),
        (r"a\Z", Escape),
        (r"[a-\d]", Escape),
        (r"[\b]", Escape),
        (r"\x4", Escape),
        (r"\x{10FFFF}", Escape),
        (r"\777", Escape),
        ("a{100000000}", RepeatSize),
        ("\\é", Escape),
        ("a\\", TrailingBackslash),
        ("(?=a)b", Group),
        ("(?<=a)b", Group),
        ("(?!a)", Group),
        ("(?-)a", Group),
        ("(?P<n-x>a)", Group),
        ("[z-a]", Class),
        ("[[:nope:]]", Class),
        ("[a", MissingBracket),
        ("[[:alpha:]", MissingBracket),
    ];
    for (pattern, fault) in bad {
        assert_eq!(translated(pattern, Alphabet::Latin1), Err(fault), "{pattern}");
    }
}

#[test]
fn sets_of_unicode_are_counted() {
    let sets = [
        (r"\pL", 32),
        (r"[\pL]", 32),
        ("[!-\u{10ffff}]", 4),
        (r"[\D]", 4),
        ("[[:^alpha:]]", 4),
        ("[\u{4e00}-\u{9fff}]", 200),
    ];
    for (set, most) in sets {
        let many = |count| translated(&format!("(?i){}", set.repeat(count)), Alphabet::Unicode);
        assert!(many(most).is_ok(), "{set}");
        assert_eq!(many(most + 33), Err(TooLarge), "{set}");
    }
    assert!(translated(&r"\D[a-zà-ü][^a]".repeat(1_000), Alphabet::Unicode).is_ok());
    assert!(translated(&r"\pL".repeat(33), Alphabet::Latin1).is_ok(), "RE2 takes it");
}

#[test]
fn long_patterns_cost_their_length() {
    let groups = 100_000;
    let nested = "(".repeat(groups) + &")".repeat(groups);
    assert!(translated(&nested, Alphabet::Latin1).is_ok());
    assert_eq!(translated(&"[[:".repeat(groups), Alphabet::Latin1), Err(MissingBracket));
    assert!(translated(&"{1".repeat(groups), Alphabet::Latin1).is_ok());
}

//! The words a watcher hears when something goes wrong: the table of gRFC A88, over both variants, on
//! aggregated streams and on those of one type.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

/// One way to speak to a server.
#[derive(Clone, Copy)]
struct Way {
    delta: bool,
    per_type: bool,
}

const WAYS: [Way; 4] = [
    Way { delta: false, per_type: false },
    Way { delta: false, per_type: true },
    Way { delta: true, per_type: false },
    Way { delta: true, per_type: true },
];

impl Way {
    /// A cluster `a` is watched and asked for, of a server with these words.
    fn asked(self, words: &str) -> String {
        let delta = if self.delta { "delta" } else { "" };
        let per_type = if self.per_type { "per-type" } else { "" };
        let server = format!("% server one {delta} {per_type} {words}\n+ u cds a\n");
        server + &self.open("")
    }

    fn stream(self) -> &'static str {
        if self.per_type { "one/cds" } else { "one" }
    }

    /// The stream is opened and the first request sent. `held` is the version of `a`, if it is held.
    fn open(self, held: &str) -> String {
        let (stream, ask) = (self.stream(), self.asks(held));
        format!("< {stream} open\n> {stream} open\n{ask}")
    }

    fn asks(self, held: &str) -> String {
        match (self.delta, held) {
            (true, "") => "< one cds +a node\n".to_owned(),
            (true, held) => format!("< one cds +a init=a:{held} node\n"),
            (false, "") => "< one cds a node\n".to_owned(),
            (false, held) => format!("< one cds a v={held} node\n"),
        }
    }

    /// The response of this number says `says`, and is accepted.
    fn says(self, number: u32, says: &str) -> String {
        let version = if self.delta { String::new() } else { format!("v={number}") };
        let answer = if self.delta { String::new() } else { format!("a v={number}") };
        format!("> one cds {version} n={number} {says}\n< one cds {answer} n={number}\n")
    }

    /// The response of this number has a bad `a`. `held` is the version that was accepted last.
    fn rejects(self, number: u32, held: &str) -> String {
        let version = if self.delta { String::new() } else { format!("v={number}") };
        let answer = match (self.delta, held) {
            (true, _) => String::new(),
            (false, "") => "a".to_owned(),
            (false, held) => format!("a v={held}"),
        };
        let error = "error=`a`: bad";
        format!("> one cds {version} n={number} a@!bad\n< one cds {answer} n={number} {error}\n")
    }

    /// `a` is taken away.
    fn takes_away(self, number: u32) -> String {
        self.says(number, if self.delta { "-a" } else { "" })
    }

    /// The stream ends after a response, and the next one cannot be opened, or ends without one.
    /// `heard` says what the watcher is told then.
    fn dies(self, how: Death, responded: bool, held: &str, heard: &str) -> String {
        let stream = self.stream();
        let refused = match how {
            Death::Refused => format!("> {stream} end refused\n"),
            Death::Speechless => {
                format!("> {stream} open\n{}> {stream} end\n", self.asks(held))
            }
        };
        let ends = format!("> {stream} end\n");
        let ends = if responded { ends + "~ 1s\n" } else { return ends + heard + "~ 1s\n" };
        format!("{ends}< {stream} open\n{refused}{heard}~ 2s\n")
    }
}

/// The ways a server dies: the first and the second pair of rows of the table.
#[derive(Clone, Copy)]
enum Death {
    Refused,
    Speechless,
}

/// Plays each script that a way and a death make.
fn each(script: impl Fn(Way, Death) -> String) {
    for way in WAYS {
        for death in [Death::Refused, Death::Speechless] {
            client(&script(way, death));
        }
    }
}

#[test]
fn a_watcher_without_a_value_hears_that_the_server_died() {
    // C-047, C-067: nothing was said of the resource
    for way in WAYS {
        let stream = way.stream();
        client(&(way.asked("") + &format!("> {stream} end\n! u a none unreachable")));
    }
}

#[test]
fn a_watcher_whose_resource_timed_out_hears_that_the_server_died() {
    // C-065, C-066, C-067
    for (words, wait, kind) in
        [("", "15s", "missing"), ("resource_timer_is_transient_error", "30s", "late")]
    {
        for way in WAYS {
            let late = format!("~ {wait}\n! u a none {kind}\n");
            let ends = way.dies(Death::Refused, false, "", "! u a none unreachable\n");
            let back = way.open("") + &way.says(1, "a@1") + "! u a@1";
            client(&(way.asked(words) + &late + &ends + &back));
        }
    }
}

#[test]
fn a_watcher_whose_resource_was_rejected_hears_that_the_server_died() {
    // C-063, C-067, C-070
    each(|way, death| {
        let bad = way.rejects(1, "") + "! u a none rejected\n";
        let ends = way.dies(death, true, "", "! u a none unreachable\n");
        let back = way.open("") + &way.says(1, "a@1") + "! u a@1";
        way.asked("") + &bad + &ends + &back
    });
}

#[test]
fn a_watcher_whose_resource_was_refused_hears_that_the_server_died() {
    // C-067, C-071
    for code in ["NOT_FOUND", "PERMISSION_DENIED", "UNAVAILABLE", "INTERNAL"] {
        each(|way, death| {
            let refused = way.says(1, &format!("!a={code}")) + &format!("! u a none {code}\n");
            let ends = way.dies(death, true, "", "! u a none unreachable\n");
            let back = way.open("") + &way.says(1, "a@1") + "! u a@1";
            way.asked("") + &refused + &ends + &back
        });
    }
}

#[test]
fn a_watcher_whose_resource_was_removed_hears_that_the_server_died() {
    // C-067, C-070
    each(|way, death| {
        let held = way.says(1, "a@1") + "! u a@1\n";
        let removed = way.takes_away(2) + "! u a none missing\n";
        let ends = way.dies(death, true, "", "! u a none unreachable\n");
        let back = way.open("") + &way.says(1, "a@2") + "! u a@2";
        way.asked("fail_on_data_errors") + &held + &removed + &ends + &back
    });
}

#[test]
fn a_watcher_with_a_value_goes_on_with_it_when_the_server_died() {
    // C-047, C-067
    each(|way, death| {
        let held = way.says(1, "a@1") + "! u a@1\n";
        let ends = way.dies(death, true, "1", "! u a but unreachable\n");
        let back = way.open("1") + &way.says(1, "a@1") + "! u a fine";
        way.asked("") + &held + &ends + &back
    });
}

#[test]
fn what_came_last_is_what_is_wrong_with_a_value() {
    // C-047, C-048, C-067, C-070: the value was rejected before the server died
    each(|way, death| {
        let held = way.says(1, "a@1") + "! u a@1\n" + &way.rejects(2, "1") + "! u a but rejected\n";
        let again = if way.delta { "" } else { "1" };
        let late = "! u a but unreachable\n+ v cds a\n! v a@1\n! v a but unreachable\n";
        let ends = way.dies(death, true, again, late);
        let back = way.open(again) + &way.rejects(1, "1");
        let heard = "! u a but rejected\n! v a but rejected\n";
        let good = way.says(2, "a@2") + "! u a@2\n! v a@2";
        way.asked("") + &held + &ends + &back + heard + &good
    });
}

#[test]
fn an_error_that_is_still_true_is_told_again_when_the_server_is_back() {
    // C-067, C-070
    each(|way, death| {
        let bad = way.rejects(1, "") + "! u a none rejected\n";
        let late = "! u a none unreachable\n+ v cds a\n! v a none unreachable\n";
        let ends = way.dies(death, true, "", late);
        let back = way.open("") + &way.rejects(1, "");
        way.asked("") + &bad + &ends + &back + "! u a none rejected\n! v a none rejected"
    });
}

#[test]
fn a_value_that_is_rejected_stays_unless_the_server_wants_it_dropped() {
    // C-070
    for (words, heard) in [("", "but"), ("fail_on_data_errors", "none")] {
        for way in WAYS {
            let held = way.says(1, "a@1") + "! u a@1\n";
            let bad = way.rejects(2, "1") + &format!("! u a {heard} rejected");
            client(&(way.asked(words) + &held + &bad));
        }
    }
}

#[test]
fn a_value_that_is_taken_away_stays_unless_the_server_wants_it_dropped() {
    // C-070
    for (words, heard) in [("", "but"), ("fail_on_data_errors", "none")] {
        for way in WAYS {
            let held = way.says(1, "a@1") + "! u a@1\n";
            let removed = way.takes_away(2) + &format!("! u a {heard} missing");
            client(&(way.asked(words) + &held + &removed));
        }
    }
}

#[test]
fn a_value_that_is_refused_stays_unless_the_code_and_the_server_want_it_dropped() {
    // C-070, C-071
    for (words, code, heard) in [
        ("", "NOT_FOUND", "but"),
        ("", "PERMISSION_DENIED", "but"),
        ("", "UNAVAILABLE", "but"),
        ("", "INTERNAL", "but"),
        ("fail_on_data_errors", "NOT_FOUND", "none"),
        ("fail_on_data_errors", "PERMISSION_DENIED", "none"),
        ("fail_on_data_errors", "UNAVAILABLE", "but"),
        ("fail_on_data_errors", "INTERNAL", "but"),
    ] {
        for way in WAYS {
            let held = way.says(1, "a@1") + "! u a@1\n";
            let refused = way.says(2, &format!("!a={code}")) + &format!("! u a {heard} {code}");
            client(&(way.asked(words) + &held + &refused));
        }
    }
}

#[test]
fn what_is_polled_tells_its_watchers_too() {
    // C-043, C-044, C-067
    client(
        "% server one refresh=5s
         + u cds a
         < one/cds open
         + v cds b
         + w cds c
         > one/cds open
         < one cds a b c node
         > one cds v=1 a@!bad b@1
         ! u a none rejected
         ! v b@1
         ~ 5s
         < one cds a b c node error=`a`: bad
         > one/cds end
         < one/cds open
         > one/cds end refused
         ! u a none unreachable
         ! v b but unreachable
         ! w c none unreachable
         ~ 1s
         < one/cds open
         > one/cds open
         < one cds a b c node
         > one cds v=1 a@!bad b@1
         ! u a none rejected
         ! v b fine",
    );
}

#[test]
fn a_resource_that_is_missing_asks_no_other_server_and_hears_of_the_last() {
    // C-087, C-090: `b` makes the client turn to the last server, and that dies too
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 !a=NOT_FOUND
         < one eds a v=1 n=1
         ! u a none NOT_FOUND
         > one end
         ~ 1s
         < one open
         > one end refused
         + v eds a
         ! v a none NOT_FOUND
         + w eds b
         < two open
         > two end refused
         ! u a none unreachable
         ! v a none unreachable
         ! w b none unreachable",
    );
}

#[test]
fn what_is_said_after_the_server_died_is_what_came_last() {
    // C-045, C-067: the time to live ends while nobody can be reached
    client(
        "% server one delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 a@1(ttl=10s)
         < one eds n=1
         ! u a@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a but unreachable
         ~ 9s
         < one open
         ! u a none missing",
    );
}

#[test]
fn a_server_that_dies_again_is_told_of_to_those_who_heard_something_else() {
    // C-066, C-067: in delta, whoever owes an answer is not there
    client(
        "% server one delta
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds +a +b node
         > one eds n=1 b@1
         < one eds n=1
         ! v b@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a none unreachable
         ! v b but unreachable
         ~ 2s
         < one open
         > one open
         < one eds +a +b init=b:1 node
         ~ 15s
         ! u a none missing
         > one end
         ! u a none unreachable",
    );
}

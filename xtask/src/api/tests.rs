//! Listings of small crates: what stands in them, and at which path.

use std::collections::BTreeMap;

use super::*;

/// The listing of a crate named `it`, which may use `bytes`, `http` and `thiserror`; a file is
/// named from its `src`.
fn interface_of(files: &[(&str, &str)]) -> Interface {
    let read = |path: &str| {
        let file = files.iter().find(|(file, _)| path.strip_prefix("crates/it/src/") == Some(file));
        file.map(|(_, text)| (*text).to_owned())
    };
    let crates = ["bytes", "http", "thiserror"].map(|name| (name.to_owned(), name.to_owned()));
    let library = Library {
        package: "it".to_owned(),
        root: "crates/it/src/lib.rs".to_owned(),
        features: Vec::new(),
        crates: BTreeMap::from(crates),
    };
    interface(&library, &read).unwrap()
}

/// The lines of a crate with one file.
#[track_caller]
fn listed(source: &str, expected: &[&str]) {
    listed_of(&[("lib.rs", source)], expected);
}

#[track_caller]
fn listed_of(files: &[(&str, &str)], expected: &[&str]) {
    let interface = interface_of(files);
    assert_eq!(interface.unknown, BTreeSet::new());
    let lines = interface.text.lines();
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("extern ")).collect();
    // A condition begins with `#` as a comment does.
    let shown = interface.text.lines().filter(|line| line.starts_with("#["));
    let all: BTreeSet<_> = lines.into_iter().chain(shown).collect();
    assert_eq!(all, expected.iter().copied().collect());
}

#[test]
fn a_struct_is_listed_with_its_public_fields() {
    listed(
        "#[non_exhaustive] pub struct A<'a> { pub b: &'a  str, c: u8 }\n\
         pub struct Pair(pub u8, u16,);\n\
         pub struct Unit;\n\
         pub struct Open { pub b : Vec<u8,>, }\n\
         struct Private; pub(crate) struct Inner;",
        &[
            "#[non_exhaustive] pub struct A<'a> { .. }",
            "pub A::b: &'a str",
            "pub struct Pair(pub u8, _)",
            "pub struct Unit;",
            "pub struct Open",
            "pub Open::b: Vec<u8>",
        ],
    );
}

#[test]
fn an_enum_is_listed_with_its_variants() {
    listed(
        "pub enum A { One, Two(u8, String), Three { a: u8, b: Box<str>, }, Four = 4 }",
        &[
            "pub enum A",
            "A::One",
            "A::Two(u8, String)",
            "A::Three { a: u8, b: Box<str> }",
            "A::Four = 4",
        ],
    );
}

#[test]
fn a_trait_is_listed_with_what_must_and_may_be_given() {
    listed(
        "pub trait A<T: Clone>: Send + 'static where T: Sync {\n\
             const N: usize = 1; type Of: Iterator<Item = T>;\n\
             fn must(&self, value: T) -> Self::Of; fn may(&mut self) {} }",
        &[
            "pub trait A<T: Clone>: Send + 'static where T: Sync",
            "const A::N: usize = ..",
            "type A::Of: Iterator<Item = T>",
            "fn A::must(&self, value: T) -> Self::Of",
            "fn A::may(&mut self) { .. }",
        ],
    );
}

#[test]
fn functions_are_listed_by_their_signature() {
    listed(
        "pub const fn a<'a, T>(mut b: &'a [T], (c, d): (u8, u8)) -> Option<&'a T> where T: Ord {}\n\
         pub async fn e(f: impl Fn(&str) -> bool + Send) {}\n\
         pub const G: [&str; 2] = [\"\", \"\"]; pub static H: u8 = 1; pub type I<T> = Option<T>;",
        &[
            "pub const fn a<'a, T>(b: &'a [T], _: (u8, u8)) -> Option<&'a T> where T: Ord",
            "pub async fn e(f: impl Fn(&str) -> bool + Send)",
            "pub const G: [&str; 2]",
            "pub static H: u8",
            "pub type I<T> = Option<T>",
        ],
    );
}

#[test]
fn methods_belong_to_their_type_wherever_they_stand() {
    listed_of(
        &[
            ("lib.rs", "mod a; mod more; pub use a::A as B;"),
            ("a.rs", "pub struct A<T>(T); impl<T: Clone> A<T> { pub const N: u8 = 1; fn f() {} }"),
            ("more/mod.rs", "mod deep;"),
            (
                "more/deep.rs",
                "use crate::a::A; use super::super::a;\n\
                 impl A<u8> { pub fn one(mut self) -> a::A<()> {} pub(crate) fn two() {} }",
            ),
        ],
        &["pub struct B<T>(_)", "pub const B<T>::N: u8", "pub fn B<u8>::one(self) -> B<()>"],
    );
}

#[test]
fn an_item_is_shown_at_its_shortest_path_and_reexported_at_others() {
    listed_of(
        &[
            ("lib.rs", "pub mod a; mod b; pub use self::a::c::{self as d, Deep}; pub use b::*;"),
            ("a.rs", "pub mod c; pub use crate::b::{X as Y, hidden};"),
            ("a/c.rs", "pub struct Deep; pub use super::super::b::X;"),
            ("b.rs", "pub struct X; pub mod hidden { pub fn f(x: super::X) {} } fn g() {}"),
        ],
        &[
            "pub struct Deep;",
            "pub struct X;",
            "pub mod a",
            "pub use X as a::Y",
            "pub mod d",
            "pub use d as a::c",
            "pub use Deep as d::Deep",
            "pub use X as d::X",
            "pub mod hidden",
            "pub fn hidden::f(x: X)",
            "pub use hidden as a::hidden",
        ],
    );
}

#[test]
fn a_name_may_be_a_function_and_a_private_module() {
    listed_of(
        &[
            ("lib.rs", "mod f; pub use f::f; pub use http::Uri; pub use bytes::*; pub use http;"),
            ("f.rs", "pub fn f() {}"),
        ],
        &["pub fn f()", "pub use http::Uri", "pub use bytes::* as *", "pub use http"],
    );
}

#[test]
fn names_are_those_of_users_and_items_of_other_crates_are_told() {
    let source = "use std::{fmt::{self, Debug}, sync::Arc, str}; use http::{Uri as Address, header};\n\
                  mod a { pub struct In; pub mod b { pub struct Lost; } } pub use a::In as Out;\n\
                  pub fn f(a: Address, b: ::bytes::Bytes, c: header::HeaderName) -> fmt::Result {}\n\
                  pub fn g<T: Debug>(a: &Arc<dyn core::any::Any>, b: &a::In, c: &str) -> T {}\n\
                  pub fn h(a: a::b::Lost) {}";
    listed(
        source,
        &[
            "pub struct Out;",
            "pub fn f(a: http::Uri, b: bytes::Bytes, c: http::header::HeaderName) -> std::fmt::Result",
            "pub fn g<T: Debug>(a: &std::sync::Arc<dyn std::any::Any>, b: &Out, c: &str) -> T",
            "pub fn h(a: crate::a::b::Lost)",
        ],
    );
    let interface = interface_of(&[("lib.rs", source)]);
    let foreign: Vec<_> =
        interface.text.lines().filter_map(|line| line.strip_prefix("extern ")).collect();
    assert_eq!(foreign, ["bytes::Bytes", "http::Uri", "http::header::HeaderName"]);
    assert_eq!(interface.packages, ["bytes", "http"].map(str::to_owned).into());
}

#[test]
fn a_name_that_leads_nowhere_is_told() {
    let interface = interface_of(&[("lib.rs", "use http::*; pub fn f(a: Uri) -> Vec<u8> {}")]);
    assert_eq!(interface.unknown, BTreeSet::from(["Uri".to_owned()]));
}

#[test]
fn an_alias_that_users_cannot_name_is_looked_through() {
    listed(
        "mod a { use http::Uri; pub(crate) type Answer<'b, T, E = Uri> = Result<&'b [T], E>; }\n\
         pub fn f<'c>(x: &'c u8) -> a::Answer<'c, u8> {}",
        &["pub fn f<'c>(x: &'c u8) -> Result<&'c [u8], http::Uri>"],
    );
}

#[test]
fn methods_of_an_alias_are_those_of_its_type() {
    listed(
        "mod a { pub struct A<T>(T); } pub use a::A; type Bytes = a::A<u8>;\n\
         impl Bytes { pub fn f(&self) {} }",
        &["pub struct A<T>(_)", "pub fn A<u8>::f(&self)"],
    );
}

#[test]
fn traits_stand_in_one_line_whether_they_are_derived_or_not() {
    let by_hand = "use std::fmt; pub struct A; impl Clone for A {} impl fmt::Debug for A {}\n\
                   impl PartialEq<str> for A {} impl From<A> for http::Uri {}";
    let traits = "impl Clone + Debug + PartialEq<str> for A";
    let other = "impl From<A> for http::Uri";
    listed(by_hand, &["pub struct A;", traits, other]);
    let derived = "#[derive(Debug, Clone)] pub struct A; impl PartialEq<str> for A {}\n\
                   impl From<A> for http::Uri {}";
    listed(derived, &["pub struct A;", traits, other]);
}

#[test]
fn implementations_tell_their_parameters_and_associated_types() {
    listed(
        "#[derive(Clone)] pub struct A<'a, T>(&'a T); struct Private; pub trait P {}\n\
         impl<'a, T: Sync> IntoIterator for &A<'a, T> where T: Send { type Item = T; fn into() {} }\n\
         impl<T: ?Sized> P for Box<T> {} impl P for Private {} impl From<Private> for A<'_, u8> {}",
        &[
            "pub struct A<'a, T>(_)",
            "impl<'a, T> Clone for A<'a, T> where T: Clone",
            "impl<'a, T: Sync> IntoIterator for &A<'a, T> where T: Send { type Item = T }",
            "pub trait P",
            "impl<T: ?Sized> P for Box<T>",
        ],
    );
}

#[test]
fn a_derived_error_shows_its_traits_and_not_the_crate_that_derives_it() {
    let source =
        "#[derive(Debug, thiserror::Error)] pub enum E { #[error(\"a\")] A(#[from] http::Error) }";
    listed(
        source,
        &[
            "pub enum E",
            "E::A(http::Error)",
            "impl Debug + From<http::Error> + std::error::Error + std::fmt::Display for E",
        ],
    );
    let interface = interface_of(&[("lib.rs", source)]);
    assert_eq!(interface.packages, BTreeSet::from(["http".to_owned()]));
}

#[test]
fn conditions_are_shown_on_each_line_and_tests_are_not_there() {
    listed_of(
        &[
            (
                "lib.rs",
                "#[cfg(feature = \"x\")] mod a; #[cfg(feature = \"x\")] pub use a::A;\n\
                 #[cfg(test)] pub mod tests; #[cfg(not(test))] pub fn f() {}",
            ),
            (
                "a.rs",
                "pub struct A { #[cfg(unix)] pub b: u8 } impl A { #[cfg(test)] pub fn g() {} }",
            ),
        ],
        &[
            "#[cfg(feature = \"x\")] pub struct A",
            "#[cfg(feature = \"x\")] #[cfg(unix)] pub A::b: u8",
            "pub fn f()",
        ],
    );
}

#[test]
fn calls_of_macros_that_make_items_are_listed_part_by_part() {
    let source = "use http::Uri; pub trait T {} macro_rules! each { ($($t:ty),*) => { $(impl T for $t {})* } }\n\
                  each!(Uri, Vec<http::header::HeaderName>,); macro_rules! no { () => { 1 } } no!(Uri);";
    listed(source, &["pub trait T", "each!(http::Uri)", "each!(Vec<http::header::HeaderName>)"]);
    let interface = interface_of(&[("lib.rs", source)]);
    assert_eq!(interface.packages, BTreeSet::from(["http".to_owned()]));
}

#[test]
fn a_listing_that_is_not_what_the_sources_say_is_a_fault() {
    let metadata = serde_json::json!({"workspace_root": "/w", "packages": [{
        "name": "it",
        "targets": [{"kind": ["lib"], "src_path": "/w/crates/it/src/lib.rs"}],
        "dependencies": [],
    }]});
    let page = ("docs/stability.md", "## Items of other crates\n");
    let files = |source, listing| {
        let tree = RepositoryTree::of(&[
            ("crates/it/src/lib.rs", source),
            ("docs/api/it.txt", listing),
            ("docs/api/gone.txt", ""),
            page,
        ]);
        check(&tree, &metadata)
    };
    let [(_, interface)] = &interfaces(
        &RepositoryTree::of(&[("crates/it/src/lib.rs", "pub fn f() {}")]),
        &metadata,
    )[..] else {
        panic!("one library")
    };
    let listing = interface.as_ref().unwrap().text.clone();
    let gone = Finding::Fault("docs/api/gone.txt: is the listing of no library".to_owned());
    assert_eq!(files("pub fn f() {}", listing.as_str()), [gone]);
    let [Finding::Fault(text), _] = &files("pub fn f(a: u8) {}", listing.as_str())[..] else {
        panic!("one fault and that of the other listing")
    };
    assert!(text.contains("  - pub fn f()\n  + pub fn f(a: u8)\n"), "{text}");
    assert!(text.contains("run `cargo xtask api`"), "{text}");
}

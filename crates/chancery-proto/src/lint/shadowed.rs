//! Routes that can never match, because an earlier one of the same virtual host takes all that they
//! match.
//!
//! An earlier route takes everything below its prefix if it has no other condition. Routes are
//! compared through an ordered set of such prefixes, in which none begins another one: so the
//! greatest that is not greater than a path is the only one that can begin it. Not here: routes
//! whose conditions exclude each other in other ways.

use std::collections::BTreeMap;
use std::ops::Bound;

use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, TypeUrl};
use prost_reflect::DynamicMessage;

use super::{SHADOWED_ROUTE, Warning};
use crate::walk::{message_in, messages_in, value_in};

/// Warns of each route of a route configuration or virtual host that can never match.
pub(super) fn lint_routes(type_url: &TypeUrl, body: &DynamicMessage, warnings: &mut Vec<Warning>) {
    match type_url.api() {
        Api::Rds => {
            for (at, host) in messages_in(body, "virtual_hosts").enumerate() {
                lint_host(&format!("virtual_hosts[{at}]."), host, warnings);
            }
        }
        Api::Vhds => lint_host("", body, warnings),
        _ => {}
    }
}

/// Warns of each route of this virtual host that can never match. The prefix is put before the
/// paths of its fields.
pub(super) fn lint_host(path: &str, host: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let (mut taken, mut shadowed) = (TakenPrefixes::default(), 0_usize);
    for (at, route) in messages_in(host, "routes").enumerate() {
        let Some(condition) = message_in(route, "match") else { continue };
        if let Some(why) = beginning(condition).and_then(|begins| taken.no_path(&begins)) {
            shadowed += 1;
            if shadowed <= MOST_TOLD {
                let path = format!("{path}routes[{at}].match");
                let text = format!("can never match: {why}");
                warnings.push(Warning::new(SHADOWED_ROUTE, path, text));
            }
        } else if let Some(prefix) = catches_all(condition) {
            taken.add(prefix, at);
        }
    }
    if shadowed > MOST_TOLD {
        let text = format!("{} more routes can never match", shadowed - MOST_TOLD);
        let path = format!("{path}routes");
        warnings.push(Warning::new(SHADOWED_ROUTE, path, text));
    }
}

/// The prefixes below which an earlier route takes everything, with its place. None begins another one.
#[derive(Default)]
struct TakenPrefixes<'a>(BTreeMap<&'a str, usize>);

/// The text that all paths begin with that a route matches.
struct Beginning<'a> {
    text: &'a str,
    /// True if letters of either case match.
    is_any_case: bool,
}

impl<'a> TakenPrefixes<'a> {
    /// The reason why no path that begins so reaches a route after these.
    fn no_path(&self, begins: &Beginning<'_>) -> Option<String> {
        let shown = |text| Printable(cut(text, LONGEST_PREFIX)).to_string();
        // `OPTIONS *` asks about the server.
        if !begins.text.is_empty() && !begins.text.starts_with(['/', '*']) {
            return Some(format!("a path begins with `/`, and `{}` does not", shown(begins.text)));
        }
        let (prefix, earlier) = self.takes(begins)?;
        let prefix = shown(prefix);
        Some(format!("`routes[{earlier}]` takes all below `{prefix}` and comes first"))
    }

    /// The prefix and the place of the route that takes all paths that begin so.
    fn takes(&self, begins: &Beginning<'_>) -> Option<(&'a str, usize)> {
        let up_to = (Bound::Unbounded, Bound::Included(begins.text));
        let (prefix, at) = self.0.range::<str, _>(up_to).next_back()?;
        let takes = begins.text.starts_with(prefix) && !(begins.is_any_case && has_letters(prefix));
        takes.then_some((*prefix, *at))
    }

    /// Adds a prefix that no other one begins.
    fn add(&mut self, prefix: &'a str, at: usize) {
        let longer: Vec<&str> = self
            .0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(longer, _)| *longer)
            .take_while(|longer| longer.starts_with(prefix))
            .collect();
        for longer in longer {
            self.0.remove(longer);
        }
        self.0.insert(prefix, at);
    }
}

/// The prefix of a condition that nothing else narrows.
fn catches_all(condition: &DynamicMessage) -> Option<&str> {
    let prefix = value_in(condition, "prefix").filter(|_| condition.has_field_by_name("prefix"))?;
    let prefix = prefix.as_str()?;
    let is_alone =
        condition.fields().all(|(field, _)| matches!(field.name(), "prefix" | "case_sensitive"));
    (is_alone && (!is_any_case(condition) || !has_letters(prefix))).then_some(prefix)
}

/// The beginning of all paths that a condition matches, if that is known.
fn beginning(condition: &DynamicMessage) -> Option<Beginning<'_>> {
    let is_any_case = is_any_case(condition);
    let plain = ["prefix", "path", "path_separated_prefix"].into_iter();
    let mut plain = plain.filter(|field| condition.has_field_by_name(field));
    if let Some(text) = plain.next().and_then(|field| value_in(condition, field)?.as_str()) {
        return Some(Beginning { text, is_any_case });
    }
    // A pattern is known to begin with a slash if it does, and has no alternatives.
    let pattern =
        message_in(condition, "safe_regex").and_then(|it| value_in(it, "regex")?.as_str())?;
    let mut rest = pattern.strip_prefix('/')?.chars();
    let is_sure = !matches!(rest.next(), Some('?' | '*' | '{')) && !pattern.contains('|');
    is_sure.then_some(Beginning { text: "/", is_any_case: false })
}

fn is_any_case(condition: &DynamicMessage) -> bool {
    let wrapper = message_in(condition, "case_sensitive");
    wrapper.is_some_and(|it| value_in(it, "value").and_then(|it| it.as_bool()) != Some(true))
}

fn has_letters(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

/// The routes of one virtual host that are told one by one.
const MOST_TOLD: usize = 20;
/// The bytes of a prefix that are shown.
const LONGEST_PREFIX: usize = 128;

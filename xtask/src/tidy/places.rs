//! The check that `ARCHITECTURE.md` names no file or folder that is not there.
//!
//! A place is what stands between backticks and ends in `.rs`, `.toml` or `/`. The page names it as
//! far as its section leaves no doubt, so a place is there if the path of some file has its parts in
//! a row. Whether the page says what is true of it, only a reader can tell.

use crate::findings::Finding;
use crate::repository::RepositoryTree;

/// The page whose places are checked.
const PAGE: &str = "ARCHITECTURE.md";

/// The ends of a place.
const ENDS: [&str; 3] = [".rs", ".toml", "/"];

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let page = tree.text(PAGE).unwrap_or_default();
    let unknown = page.lines().zip(1..).flat_map(|(line, number)| {
        let lacking = places(line).filter(|place| !is_there(tree, place));
        lacking.map(move |place| {
            Finding::Fault(format!("{PAGE}:{number}: there is no `{place}`: name what is there"))
        })
    });
    unknown.collect()
}

/// The places that a line names.
fn places(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| ENDS.iter().any(|end| text.ends_with(end)) && !text.contains(' '))
}

fn is_there(tree: &RepositoryTree, place: &str) -> bool {
    let inner = format!("/{place}");
    tree.files.iter().any(|file| {
        let path = format!("/{}", file.path);
        if place.ends_with('/') { path.contains(&inner) } else { path.ends_with(&inner) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(page: &str) -> Vec<Finding> {
        check(&RepositoryTree::of(&[(PAGE, page), ("crates/core/src/server/machine.rs", "")]))
    }

    #[test]
    fn places_that_are_there_are_found_by_their_last_parts() {
        let page = "`machine.rs`, `server/machine.rs` in `server/`, `src/server/`; `a b/` and `x`";
        assert_eq!(faults(page), []);
    }

    #[test]
    fn a_place_that_is_not_there_is_a_fault() {
        for place in ["wire/machine.rs", "ver/machine.rs", "client/", "deny.toml"] {
            let found = faults(&format!("one line\nthe file `{place}`"));
            let fault = format!("ARCHITECTURE.md:2: there is no `{place}`: name what is there");
            assert_eq!(found, [Finding::Fault(fault)]);
        }
    }
}

//! `chancery diff`: what would change for the clients if a directory were served in the place of
//! another one.
//!
//! ```text
//!   DIR, OTHER or a revision of git --> check's loading --> two catalogs --+
//!   a server --> [served]: what a client of each audience is given ---------+
//!     --> [compare]: the changes of each audience --> [output]: each change once, with who sees it
//! ```
//!
//! Not here: the loading of directories (`check`), and the difference of two texts (`line_diff`).

mod change;
mod compare;
mod effects;
mod git;
mod inherited;
mod options;
mod output;
mod served;
mod side;
mod values;

use std::path::Path;

use chancery_proto::Schema;

use self::compare::Comparison;
use self::git::ExportedTree;
pub(crate) use self::options::DiffArgs;
use crate::check::LoadedDirectory;
use crate::exit::Failure;

/// Runs the command.
pub(crate) fn run(flags: &DiffArgs) -> Result<(), Failure> {
    let (comparison, schema) = compared(flags)?;
    output::write(flags.output, &comparison, &schema)
}

fn compared(flags: &DiffArgs) -> Result<(Comparison, Schema), Failure> {
    let after = LoadedDirectory::faultless(&flags.resources.of_serve(&flags.dir), false)?;
    if !flags.servers.is_empty() {
        let served = served::ask(flags, &after)?;
        return Ok((Comparison::with_server(served, &after.schema), after.schema));
    }
    flags.access.unused()?;
    let before = match (&flags.other, &flags.git) {
        (Some(other), _) => loaded_now(flags, other)?,
        (None, Some(revision)) => {
            let tree = ExportedTree::of(&flags.dir, revision)?;
            loaded_now(flags, tree.path()).map_err(|failure| {
                let (path, shown) = (tree.path().display(), flags.dir.display());
                failure.renaming(&path.to_string(), &format!("{revision}:{shown}"))
            })?
        }
        (None, None) => {
            return Err(Failure::misuse(
                "give another directory, `--git REVISION` or `--server ADDR`",
            ));
        }
    };
    let comparison = Comparison::new(&before, &after, flags.group.as_deref())?;
    Ok((comparison, after.schema))
}

/// Loads what the clients have now.
fn loaded_now(flags: &DiffArgs, dir: &Path) -> Result<LoadedDirectory, Failure> {
    LoadedDirectory::faultless(&flags.resources.of_serve(dir), true)
}

#[cfg(test)]
mod tests;

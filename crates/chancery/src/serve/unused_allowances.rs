//! The comments that let nothing pass, each told once.
//!
//! Not everything is known of each load: while something has a fault or is held back, what is served is not what
//! the files say, and of nodes that nobody has seen only `check` knows what they would get. Not here: the comments
//! (`chancery_sources`), and the words (`check::allowances`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chancery_sources::{NeededAllowances, Warning};

use super::{FILTER_TYPE, SECRET_KIND};
use crate::check::allowance_words;

/// The comments that were told of.
#[derive(Default)]
pub(super) struct UnusedAllowances(BTreeSet<(Arc<Path>, u32, String)>);

impl UnusedAllowances {
    /// The warnings about those that are new. `is_whole` says if all is known that a comment may let pass.
    pub(super) fn look(&mut self, comments: &NeededAllowances, is_whole: bool) -> Vec<Warning> {
        let (mut now, mut new) = (BTreeSet::new(), Vec::new());
        for (file, comment, is_needed) in comments.all() {
            let is_of_node = file.components().any(|part| part.as_os_str() == "nodes");
            let is_of_check = OF_CHECK.contains(&&*comment.code);
            let is_needed = is_needed || !is_whole || is_of_node || is_of_check;
            let identity = (Arc::clone(file), comment.line, comment.code.clone());
            let is_told = self.0.contains(&identity);
            let Some((code, message)) = allowance_words(&comment.code, is_needed) else {
                // It may be told of already, and is not known to be needed by now.
                now.extend(Some(identity).filter(|_| is_told && !is_whole));
                continue;
            };
            if !is_told {
                let (file, line) = (Some(file.to_path_buf()), Some(comment.line));
                new.push(Warning { file, line, column: None, message, code, resource: None });
            }
            now.insert(identity);
        }
        self.0 = now;
        new
    }
}

/// The codes of what `check` and the gate find, and is not looked for in what is served: nobody knows here if
/// a comment about it is needed.
const OF_CHECK: [&str; 2] = [SECRET_KIND, FILTER_TYPE];

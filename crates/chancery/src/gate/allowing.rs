//! The findings that somebody let pass, which hold nothing back either: by a comment in the file, or by `allow` in
//! `chancery.yaml`.
//!
//! All that `check` lets pass goes live, so that nobody learns of a finding by what is held back. Not here: the losses,
//! which are no findings and have settings of their own.

use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Origin, Seen};
use chancery_core::{ResourceName, TypeUrl};
use chancery_sources::AllowedPlaces;

use super::LoadGate;
use crate::config::AllowedCodes;

/// The codes and places at which findings pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowing {
    pub(super) codes: AllowedCodes,
    comments: Arc<AllowedPlaces>,
}

impl Allowing {
    pub(super) fn new(codes: &AllowedCodes) -> Self {
        Self { codes: codes.clone(), comments: Arc::default() }
    }

    /// Returns true if findings of this code pass at this place, where `check` has them too: a comment elsewhere
    /// inside the resource is about something else.
    pub(super) fn allows(&self, code: &str, origin: Option<&Origin>) -> bool {
        let by_comment = |(path, line)| self.comments.let_pass(path, line, code);
        self.codes.allow(code) || place(origin).is_some_and(by_comment)
    }

    /// Returns true if findings of this code pass in a resource of this state.
    pub(super) fn allows_in(
        &self,
        code: &str,
        after: &Seen,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> bool {
        self.allows(code, after.origin(type_url, name))
    }

    /// The same for a finding about a field, of which only the beginning of its resource is known: any comment in
    /// the resource counts.
    pub(super) fn allows_inside(
        &self,
        code: &str,
        after: &Seen,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> bool {
        let origin = after.origin(type_url, name);
        self.allows(code, origin) || self.may_allow_inside(code, after, type_url, name)
    }

    /// Returns true if there is a comment for findings of this code somewhere in a resource, so that the place of the
    /// field decides.
    pub(super) fn may_allow_inside(
        &self,
        code: &str,
        after: &Seen,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> bool {
        let by_comment = |(path, line)| self.comments.let_pass_inside(path, line, code);
        place(after.origin(type_url, name)).is_some_and(by_comment)
    }
}

/// The file and the line.
fn place(origin: Option<&Origin>) -> Option<(&Path, u32)> {
    match origin {
        Some(Origin::File { path, position }) => Some((path, position.line)),
        _ => None,
    }
}

impl LoadGate {
    /// Takes the comments in the files that are judged next.
    pub(crate) fn set_comments(&self, comments: &Arc<AllowedPlaces>) {
        let mut state = self.lock();
        let codes = state.allowing.codes.clone();
        state.allowing = Arc::new(Allowing { codes, comments: Arc::clone(comments) });
    }

    /// Takes the codes that pass everywhere. Returns true if they are others.
    pub(super) fn set_allowed(&self, codes: &AllowedCodes) -> bool {
        let mut state = self.lock();
        let differ = state.allowing.codes != *codes;
        if differ {
            let comments = Arc::clone(&state.allowing.comments);
            state.allowing = Arc::new(Allowing { codes: codes.clone(), comments });
        }
        differ
    }
}

//! Lists of texts as requests have them: in the order of the request, in one piece of memory.
//!
//! A client that reconnects may name ten thousand resources and their versions. As strings these
//! would be twenty thousand pieces of memory, which are needed only until the request is read.

use std::fmt;

/// Names in the order of the request.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Names {
    text: String,
    /// The place where each name ends.
    ends: Vec<usize>,
}

/// Names with a version each, in the order of the request. The last of equal names counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Versions {
    names: Names,
    versions: Names,
}

impl Names {
    /// Adds a name at the end.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// The names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.at(at))
    }

    /// Returns true if a name is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|one| one == name)
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes that are kept.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// A digest of the names and their order.
    pub(crate) fn digest(&self) -> u128 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        for name in self.iter() {
            hash.update(&name.len().to_le_bytes());
        }
        hash.update(self.text.as_bytes());
        hash.digest128()
    }

    fn at(&self, at: usize) -> &str {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[begin..self.ends[at]]
    }
}

impl Versions {
    /// Adds a name and its version at the end.
    pub fn push(&mut self, name: &str, version: &str) {
        self.names.push(name);
        self.versions.push(version);
    }

    /// The names and their versions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.names.iter().zip(self.versions.iter())
    }

    /// The name and version at a place.
    ///
    /// # Panics
    /// If there are no more than that many.
    pub(crate) fn at(&self, at: usize) -> (&str, &str) {
        (self.names.at(at), self.versions.at(at))
    }

    /// The bytes that are kept.
    pub(crate) fn held_bytes(&self) -> usize {
        self.names.held_bytes() + self.versions.held_bytes()
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<T: AsRef<str>> FromIterator<T> for Names {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut all = Self::default();
        all.extend(names);
        all
    }
}

impl<T: AsRef<str>> Extend<T> for Names {
    fn extend<I: IntoIterator<Item = T>>(&mut self, names: I) {
        names.into_iter().for_each(|name| self.push(name.as_ref()));
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Versions {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(held: I) -> Self {
        let mut all = Self::default();
        held.into_iter().for_each(|(name, version)| all.push(name.as_ref(), version.as_ref()));
        all
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were_said() {
        let said = ["b", "", "a", "ä", "b"];
        let names: Names = said.iter().collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), said);
        assert!(names.contains("") && names.contains("ä") && !names.contains("c"));
        assert!(Names::default().is_empty());
    }

    #[test]
    fn a_digest_tells_where_names_end() {
        let digest = |names: &[&str]| names.iter().collect::<Names>().digest();
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        for other in [&["ab"][..], &["b", "a"], &["a", "b", ""], &["", "ab"]] {
            assert_ne!(digest(&["a", "b"]), digest(other), "{other:?}");
        }
    }

    #[test]
    fn versions_stay_with_their_names() {
        let held: Versions = [("a", "1"), ("b", "2")].into_iter().collect();
        assert_eq!(held.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!(held.len(), 2);
    }
}

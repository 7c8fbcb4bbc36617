//! A map from types to values, for the few types that a snapshot has.

use smallvec::SmallVec;

use crate::TypeUrl;

/// A map from types to values, in sending order. A snapshot has few types, so the map is a sorted
/// list, which is a part of the snapshot as long as it is short, and a look-up compares pointers.
#[derive(Clone, PartialEq)]
pub(crate) struct TypeMap<V>(SmallVec<[(TypeUrl, V); INLINE]>);

impl<V> TypeMap<V> {
    /// The value of a type.
    pub(crate) fn get(&self, type_url: &TypeUrl) -> Option<&V> {
        let at = self.find(type_url).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The value of a type, to be changed.
    pub(crate) fn get_mut(&mut self, type_url: &TypeUrl) -> Option<&mut V> {
        let at = self.find(type_url).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Adds a value, or replaces the one of that type.
    pub(crate) fn insert(&mut self, type_url: &TypeUrl, value: V) {
        match self.find(type_url) {
            Ok(at) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = value;
                }
            }
            Err(at) => self.0.insert(at, (type_url.clone(), value)),
        }
    }

    /// Removes the value of a type.
    pub(crate) fn remove(&mut self, type_url: &TypeUrl) {
        if let Ok(at) = self.find(type_url) {
            self.0.remove(at);
        }
    }

    /// The types, in sending order.
    pub(crate) fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.0.iter().map(|(type_url, _)| type_url)
    }

    /// The values, in sending order of their types.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The types and values, in sending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TypeUrl, &V)> {
        self.0.iter().map(|(type_url, value)| (type_url, value))
    }

    /// The types and values, the values to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&TypeUrl, &mut V)> {
        self.0.iter_mut().map(|(type_url, value)| (&*type_url, value))
    }

    /// Keeps the values for which a function returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }

    /// The number of types.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The place of a type, or the place where it belongs.
    fn find(&self, type_url: &TypeUrl) -> Result<usize, usize> {
        if self.0.len() <= FEW
            && let Some(at) = self.types().position(|it| it == type_url)
        {
            return Ok(at);
        }
        self.0.binary_search_by(|(it, _)| it.cmp(type_url))
    }
}

impl<V> Default for TypeMap<V> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

/// Up to so many types need no memory of their own: those of an Envoy over ADS.
const INLINE: usize = 4;
/// Up to so many types are looked at one by one.
const FEW: usize = 16;

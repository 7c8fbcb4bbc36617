//! Keys of `chancery.yaml` with a list of texts, where one text needs no list.
//!
//! Not here: the list of addresses (`address`), whose errors speak of addresses.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// One text, or a list of them.
pub(super) fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    deserializer.deserialize_any(TextsVisitor(PhantomData))
}

struct TextsVisitor<T>(PhantomData<T>);

impl<'de, T: From<String>> Visitor<'de> for TextsVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::from(text.to_owned())])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            all.push(T::from(text));
        }
        Ok(all)
    }
}

//! Keys of `chancery.yaml` with a list, where one element needs no list.

use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::ListenAddress;

/// One text, or a list of them.
pub(super) fn texts<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err: Display>,
{
    one_or_many(deserializer, "a text, or a list of texts")
}

/// One address, or a list of them without repetition.
pub(super) fn addresses<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ListenAddress>, D::Error> {
    let all = one_or_many(deserializer, "an address, or a list of addresses")?;
    ListenAddress::check_distinct(&all).map_err(D::Error::custom)?;
    Ok(all)
}

fn one_or_many<'de, D, T>(deserializer: D, expected: &'static str) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err: Display>,
{
    deserializer.deserialize_any(ListVisitor { expected, elements: PhantomData })
}

struct ListVisitor<T> {
    /// The description of what is expected, for whoever wrote something else.
    expected: &'static str,
    elements: PhantomData<T>,
}

impl<'de, T> Visitor<'de> for ListVisitor<T>
where
    T: Deserialize<'de> + FromStr<Err: Display>,
{
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        text.parse().map(|element| vec![element]).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = list.next_element()? {
            all.push(element);
        }
        Ok(all)
    }
}

//! The limits of lengths and of numbers of items.

use super::name::RuleName;

/// The limits of a length, or of a number of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) exact: Option<u64>,
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// The names of the rules of a length.
pub(super) struct LengthNames {
    pub(super) exact: RuleName,
    pub(super) least: RuleName,
    pub(super) most: RuleName,
}

impl Lengths {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn judge(
        self,
        length: usize,
        names: &LengthNames,
        broken: &mut dyn FnMut(RuleName),
    ) {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if self.exact.is_some_and(|exact| length != exact) {
            broken(names.exact);
        } else if self.exact.is_none() {
            if self.least.is_some_and(|least| length < least) {
                broken(names.least);
            }
            if self.most.is_some_and(|most| length > most) {
                broken(names.most);
            }
        }
    }

    /// The sentence, where one item is called `item` and several `items`.
    pub(super) fn describe(self, item: &str, items: &str) -> String {
        let counted = |count: u64| format!("{count} {}", if count == 1 { item } else { items });
        match self {
            Self { exact: Some(exact), .. } => format!("must have {}", counted(exact)),
            Self { least: Some(least), most: Some(most), .. } if least == most => {
                format!("must have {}", counted(least))
            }
            Self { least: Some(least), most: Some(most), .. } => {
                format!("must have {least} to {}", counted(most))
            }
            Self { least: Some(1), .. } => "must not be empty".to_owned(),
            Self { least: Some(least), .. } => format!("must have at least {}", counted(least)),
            Self { most, .. } => format!("must have at most {}", counted(most.unwrap_or_default())),
        }
    }
}

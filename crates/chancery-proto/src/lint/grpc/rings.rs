//! The hash functions and the sizes of rings that gRPC clients reject (C-112, C-114,
//! [gRFC A42](https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md)).
//!
//! The two places of a ring are not read alike by any implementation, nor is one place by two of them. Not here:
//! rings in a `TypedStruct`.

use prost_reflect::DynamicMessage;

use super::clusters::enum_in;
use super::policies::Fault;
use super::{ALL, CORE, Findings, JAVA, NODE, Who};
use crate::walk::{message_in, value_in};

/// The sizes of a ring, as far as they are set.
#[derive(Clone, Copy)]
struct Sizes {
    minimum: Option<u64>,
    maximum: Option<u64>,
}

impl Sizes {
    fn of(config: &DynamicMessage) -> Self {
        let size = |field| {
            let size = message_in(config, field)?;
            Some(value_in(size, "value").and_then(|it| it.as_u64()).unwrap_or_default())
        };
        Self { minimum: size("minimum_ring_size"), maximum: size("maximum_ring_size") }
    }

    /// The sizes with their defaults.
    fn whole(self) -> (u64, u64) {
        (self.minimum.unwrap_or(1024), self.maximum.unwrap_or(MOST))
    }

    /// Returns true if one of them is set, and this holds for it.
    fn any(self, holds: impl Fn(u64) -> bool) -> bool {
        [self.minimum, self.maximum].into_iter().flatten().any(holds)
    }

    fn are_wrong_for_java(self) -> Option<&'static str> {
        let (minimum, maximum) = self.whole();
        // A size above its cap counts as the cap.
        let is_above = minimum.min(CAP_OF_JAVA) > maximum.min(CAP_OF_JAVA);
        if self.any(|size| size == 0) { Some(ZERO) } else { is_above.then_some(ABOVE) }
    }
}

/// Looks at a ring in a list of policies as one implementation does.
pub(super) fn judge(path: &str, config: &DynamicMessage, who: Who) -> Result<(), Fault> {
    let hash = enum_in(config, "hash_function");
    let is_default = hash.as_deref().is_none_or(|hash| hash == "DEFAULT_HASH");
    // The C core takes the default of the field for `XX_HASH`.
    if hash.as_deref() != Some("XX_HASH") && !(is_default && who == CORE) {
        return Err((format!("{path}.hash_function"), HASH));
    }
    let sizes = Sizes::of(config);
    let (minimum, maximum) = sizes.whole();
    let why = match who {
        JAVA => sizes.are_wrong_for_java(),
        NODE => sizes.any(|_| true).then_some("gRPC Node cannot read the sizes of a ring here"),
        CORE if sizes.any(|size| size == 0) => Some(ZERO),
        _ if sizes.any(|size| size > MOST) => Some(TOO_LARGE),
        // gRPC Go takes 0 for unset.
        _ if minimum > maximum && maximum > 0 => Some(ABOVE),
        _ => None,
    };
    why.map_or(Ok(()), |why| Err((path.to_owned(), why)))
}

/// Adds what is found in the ring of a cluster whose `lb_policy` is `RING_HASH`.
pub(super) fn lint_by_name(config: &DynamicMessage, found: &mut Findings) {
    let path = "ring_hash_lb_config";
    if enum_in(config, "hash_function").is_some_and(|hash| hash != "XX_HASH") {
        found.rejected(ALL, format!("{path}.hash_function"), HASH);
    }
    let sizes = Sizes::of(config);
    let is_above = sizes.minimum > sizes.maximum && sizes.maximum.is_some();
    let is_large = sizes.any(|size| size > MOST);
    let wrong = |who| match who {
        JAVA => sizes.are_wrong_for_java(),
        CORE if sizes.any(|size| size == 0) => Some(ZERO),
        CORE | NODE if is_large => Some(TOO_LARGE),
        CORE if is_above => Some(ABOVE),
        _ => None,
    };
    for why in [ZERO, TOO_LARGE, ABOVE] {
        let who = [CORE, JAVA, NODE].into_iter().filter(|who| wrong(*who) == Some(why));
        if let Some(who) = who.reduce(Who::and) {
            found.rejected(who, path, why);
        }
    }
}

/// The largest size of a ring.
const MOST: u64 = 8_388_608;
/// The size of a ring that gRPC Java does not exceed.
const CAP_OF_JAVA: u64 = 4096;

const HASH: &str = "the hash function must be `XX_HASH`";
const ZERO: &str = "the size of a ring must not be 0";
const TOO_LARGE: &str = "the size of a ring must be at most 8388608";
const ABOVE: &str =
    "the minimum size of the ring, which is 1024 if it is not set, is above the maximum";

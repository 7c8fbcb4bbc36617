//! Policies of gRPC by the names and the JSON that service configurations have for them (C-112, C-114): a
//! `TypedStruct` in a list of policies may be of such a name.
//!
//! That is how `ring_hash` gets the name of a header, for which xDS has no field (gRFC A76). Not here: policies
//! that have others within, and `weighted_round_robin`, which xDS configures whole.

use chancery_calls::balancing::{ChoiceCount, PolicyConfig, RingHashConfig};
use serde_json::Value;

use super::fault::{At, Fault};

/// Reads the policy of this name; `None` if it is none of these.
pub(super) fn read(name: &str, fields: &Value) -> Option<Result<PolicyConfig, Fault>> {
    Some(match name {
        "round_robin" => Ok(PolicyConfig::RoundRobin),
        "pick_first" => pick_first(fields),
        "least_request_experimental" => least_request(fields),
        "ring_hash_experimental" => ring_hash(fields),
        _ => return None,
    })
}

fn pick_first(fields: &Value) -> Result<PolicyConfig, Fault> {
    let shuffle = match field(fields, "shuffleAddressList") {
        None => false,
        Some(shuffle) => {
            shuffle.as_bool().ok_or("it must be true or false").at("shuffleAddressList")?
        }
    };
    Ok(PolicyConfig::PickFirst { shuffle })
}

fn least_request(fields: &Value) -> Result<PolicyConfig, Fault> {
    let count = number(fields, "choiceCount")?.map(|count| {
        // More than 10 are 10.
        ChoiceCount::new(u32::try_from(count).unwrap_or(u32::MAX)).ok_or("it must be at least 2")
    });
    let count = count.transpose().at("choiceCount")?;
    Ok(PolicyConfig::LeastRequest(count.unwrap_or_default()))
}

fn ring_hash(fields: &Value) -> Result<PolicyConfig, Fault> {
    let (min, max) = (number(fields, "minRingSize")?, number(fields, "maxRingSize")?);
    let header = match field(fields, "requestHashHeader") {
        None => "",
        Some(header) => header.as_str().ok_or("it must be a text").at("requestHashHeader")?,
    };
    let config = RingHashConfig::new(min, max).and_then(|it| it.with_request_hash_header(header));
    Ok(PolicyConfig::RingHash(config.map_err(|error| error.to_string())?))
}

fn number(fields: &Value, name: &str) -> Result<Option<u64>, Fault> {
    let number = field(fields, name).map(|it| it.as_u64().ok_or("it must be a whole number"));
    number.transpose().at(name)
}

/// Returns a field that is set.
fn field<'a>(fields: &'a Value, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(name: &str, fields: &Value) -> Result<PolicyConfig, String> {
        read(name, fields).expect("a policy").map_err(|fault| fault.to_string())
    }

    #[test]
    fn policies_have_the_fields_of_service_configurations() {
        // C-112
        assert_eq!(of("round_robin", &json!({"other": 1})), Ok(PolicyConfig::RoundRobin));
        let shuffled = of("pick_first", &json!({"shuffleAddressList": true}));
        assert_eq!(shuffled, Ok(PolicyConfig::PickFirst { shuffle: true }));
        let count = |count| Ok(PolicyConfig::LeastRequest(ChoiceCount::new(count).unwrap()));
        assert_eq!(of("least_request_experimental", &json!({})), count(2));
        assert_eq!(of("least_request_experimental", &json!({"choiceCount": 4})), count(4));
        let ring = RingHashConfig::new(Some(5), Some(7)).unwrap();
        let ring = ring.with_request_hash_header("x-user").unwrap();
        let fields = json!({"minRingSize": 5, "maxRingSize": 7, "requestHashHeader": "x-user"});
        assert_eq!(of("ring_hash_experimental", &fields), Ok(PolicyConfig::RingHash(ring)));
        assert!(read("wrr_locality_experimental", &json!({})).is_none());
    }

    #[test]
    fn what_is_not_valid_is_told_with_its_field() {
        // C-112, C-114, gRFC A76
        for (name, fields, expected) in [
            (
                "pick_first",
                json!({"shuffleAddressList": 1}),
                "shuffleAddressList: it must be true or false",
            ),
            (
                "least_request_experimental",
                json!({"choiceCount": 1}),
                "choiceCount: it must be at least 2",
            ),
            (
                "ring_hash_experimental",
                json!({"minRingSize": -1}),
                "minRingSize: it must be a whole number",
            ),
            (
                "ring_hash_experimental",
                json!({"requestHashHeader": 7}),
                "requestHashHeader: it must be a text",
            ),
            (
                "ring_hash_experimental",
                json!({"requestHashHeader": "key-bin"}),
                "`key-bin` is not the name of a text header",
            ),
            (
                "ring_hash_experimental",
                json!({"minRingSize": 9_000_000}),
                "ring size 9000000 is greater than 8388608",
            ),
        ] {
            assert_eq!(of(name, &fields), Err(expected.to_owned()));
        }
    }
}

//! CSDS on the wire, compared with the descriptors.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use prost_reflect::DynamicMessage;
use serde_json::json;

use super::message::{CONFIG_STATES, STATES, number_of, number_of_config};
use super::*;
use crate::schema::Schema;

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

fn client() -> ClientConfig {
    let node = Node { id: "n".to_owned(), ..Node::default() };
    let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
    let held = GenericXdsConfig {
        type_url: TypeUrl::new(SECRET),
        name: "a".into(),
        version_info: "1".into(),
        // A message with a text in field 1.
        xds_config: Some(Bytes::from_static(b"\x0a\x01a")),
        last_updated: Some(at(1500)),
        config_status: Some(ConfigStatus::Error),
        client_status: Some(ResourceState::Nacked),
        error_state: Some(UpdateFailureState {
            failed_configuration: Some(Bytes::from_static(b"\x0a\x01b")),
            last_update_attempt: Some(at(2000)),
            details: "it is bad".to_owned(),
            version_info: "2".to_owned(),
        }),
    };
    let asked = GenericXdsConfig {
        name: "b".into(),
        version_info: "".into(),
        xds_config: None,
        last_updated: None,
        config_status: None,
        client_status: Some(ResourceState::Requested),
        error_state: None,
        ..held.clone()
    };
    ClientConfig {
        node: Some(Arc::new(node)),
        client_scope: "xds:///x".to_owned(),
        generic_xds_configs: vec![held, asked],
    }
}

/// C-136
#[test]
fn what_a_client_says_of_itself_is_what_the_descriptors_say() {
    let expected = json!({"config": [{
        "node": {"id": "n"},
        "clientScope": "xds:///x",
        "genericXdsConfigs": [{
            "typeUrl": SECRET,
            "name": "a",
            "versionInfo": "1",
            "xdsConfig": {"@type": SECRET, "name": "a"},
            "lastUpdated": "1970-01-01T00:00:01.500Z",
            "configStatus": "ERROR",
            "clientStatus": "NACKED",
            "errorState": {
                "failedConfiguration": {"@type": SECRET, "name": "b"},
                "lastUpdateAttempt": "1970-01-01T00:00:02Z",
                "details": "it is bad",
                "versionInfo": "2",
            },
        }, {
            "typeUrl": SECRET,
            "name": "b",
            "clientStatus": "REQUESTED",
        }],
    }]});
    let message = "envoy.service.status.v3.ClientStatusResponse";
    let descriptor = Schema::bundled().message(message).unwrap();
    let bytes = encode_client_status(&[client()]);
    let message = DynamicMessage::decode(descriptor, bytes).unwrap();
    assert_eq!(serde_json::to_value(message).unwrap(), expected);
}

/// C-136, C-054
#[test]
fn every_state_has_its_number() {
    let descriptor = Schema::bundled();
    let states = descriptor.pool().get_enum_by_name("envoy.admin.v3.ClientResourceStatus");
    let states = states.unwrap();
    for state in STATES {
        let number = states.get_value(number_of(state)).unwrap();
        let name = number.name().replace('_', "").to_lowercase();
        assert_eq!(name, format!("{state:?}").to_lowercase());
        let mut client = client();
        client.generic_xds_configs[0].client_status = Some(state);
        let read = decode_client_status(&encode_client_status(&[client.clone()])).unwrap();
        assert_eq!(read, [client]);
    }
}

/// S-134
#[test]
fn every_state_that_a_server_sees_has_its_number() {
    let descriptor = Schema::bundled();
    let states = descriptor.pool().get_enum_by_name("envoy.service.status.v3.ConfigStatus");
    let states = states.unwrap();
    for status in CONFIG_STATES {
        let name = states.get_value(number_of_config(status)).unwrap().name().replace('_', "");
        assert_eq!(name.to_lowercase(), format!("{status:?}").to_lowercase());
        let mut client = client();
        client.generic_xds_configs[0].config_status = Some(status);
        let read = decode_client_status(&encode_client_status(&[client.clone()])).unwrap();
        assert_eq!(read, [client]);
    }
}

/// C-136, S-134, S-135
#[test]
fn a_question_says_what_it_wants() {
    let read = |bytes: &[u8]| {
        let request = decode_client_status_request(bytes).unwrap();
        (!request.matchers.is_empty(), request.exclude_contents)
    };
    assert_eq!(read(b""), (false, false));
    assert_eq!(read(&[0x18, 1]), (false, true));
    // One empty matcher.
    assert_eq!(read(&[0x0a, 0]), (true, false));
    let own = encode_client_status_request(Some("a"), true);
    let own = decode_client_status_request(&own).unwrap();
    let node = |id: &str| Node { id: id.to_owned(), ..Node::default() };
    assert!(own.exclude_contents && own.matchers.matches(&node("a")));
    assert!(!own.matchers.matches(&node("b")));
    assert_eq!(read(&encode_client_status_request(None, false)), (false, false));
    assert_eq!(read(&encode_client_status_request(Some(""), false)), (true, false));
}

/// S-134
#[test]
fn a_question_whose_matchers_mean_nothing_is_refused_in_a_sentence() {
    // A matcher of ids that says nothing of them.
    let why = decode_client_status_request(&[0x0a, 2, 0x0a, 0]).unwrap_err().to_string();
    assert!(why.starts_with("`node_matchers[0].node_id` has none of"), "{why}");
    let why = decode_client_status_request(&[0xff]).unwrap_err().to_string();
    assert_eq!(why, "the message is no `ClientStatusRequest`");
}

proptest! {
    #[test]
    fn no_bytes_are_too_bad(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = (decode_client_status(&bytes), decode_client_status_request(&bytes));
    }
}

//! CSDS over REST: `POST /v3/discovery:client_status` (S-134).
//!
//! The messages are read and written by their descriptors, because a question is small and nobody asks it
//! often. Not here: their meaning ([`crate::wire`]).

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;

use super::{JsonError, body_to_json, tidy_numbers, to_value};
use crate::schema::Schema;
use crate::wire::{
    ClientConfig, ClientStatusRequest, GenericXdsConfig, decode_client_status_request,
    encode_client_status,
};

/// Reads a `ClientStatusRequest`. Its size is the caller's to bound.
///
/// # Errors
/// Fails if the text is no such message, or if its matchers mean nothing or exceed their bounds.
pub fn client_status_request_from_json(text: &[u8]) -> Result<ClientStatusRequest, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    // Unknown keys are ignored, as in every request (S-019).
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let descriptor = descriptor("ClientStatusRequest");
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options)
        .and_then(|message| reader.end().map(|()| message))
        .map_err(JsonError::StatusRequest)?;
    Ok(decode_client_status_request(&message.encode_to_vec())?)
}

/// Writes the status of one client, as it is in the `config` of a `ClientStatusResponse`, resource by resource; `None`
/// if it has more bytes than the limit. A body of a type without a descriptor is left out, because JSON has no form for
/// it.
///
/// # Errors
/// Fails if there is no JSON for a part of it, such as a time after the year 9999.
pub fn client_config_to_json(
    schema: &Schema,
    config: &ClientConfig,
    limit: usize,
) -> Result<Option<Bytes>, JsonError> {
    let resources = &config.generic_xds_configs;
    let bare = |resources| ClientConfig {
        node: config.node.clone(),
        client_scope: config.client_scope.clone(),
        generic_xds_configs: resources,
    };
    let mut text = config_json(&bare(Vec::new()))?.to_string();
    if !resources.is_empty() {
        // The object stays open until all resources are in it.
        text.pop();
        let begin = if text == "{" { "" } else { "," };
        text += &format!("{begin}\"genericXdsConfigs\":[");
        for (at, resource) in resources.iter().enumerate() {
            let one = ClientConfig {
                generic_xds_configs: vec![without_bodies(resource)],
                ..ClientConfig::default()
            };
            let mut json = config_json(&one)?["genericXdsConfigs"][0].take();
            add_bodies(schema, &mut json, resource);
            let begin = if at == 0 { "" } else { "," };
            text += &format!("{begin}{}", tidy_numbers(json));
            if text.len() > limit {
                return Ok(None);
            }
        }
        text += "]}";
    }
    Ok((text.len() <= limit).then(|| text.into()))
}

/// A client as JSON. Its resources have no bodies.
fn config_json(config: &ClientConfig) -> Result<Value, JsonError> {
    let node = config.node.as_ref().map_or("", |node| &*node.id);
    let unwritable = |source| JsonError::Unwritable { name: node.to_owned(), source };
    let bytes = encode_client_status(std::slice::from_ref(config));
    let message = DynamicMessage::decode(descriptor("ClientStatusResponse"), bytes);
    let message = message.map_err(|error| unwritable(serde::de::Error::custom(error)))?;
    let mut response = to_value(&message).map_err(unwritable)?;
    Ok(tidy_numbers(response["config"][0].take()))
}

fn add_bodies(schema: &Schema, json: &mut Value, resource: &GenericXdsConfig) {
    let body = |body: &Bytes| body_to_json(schema, &resource.type_url, &resource.name, body).ok();
    if let Some(body) = resource.xds_config.as_ref().and_then(body) {
        json["xdsConfig"] = body;
    }
    let failed = resource.error_state.as_ref().and_then(|it| it.failed_configuration.as_ref());
    if let Some(body) = failed.and_then(body) {
        json["errorState"]["failedConfiguration"] = body;
    }
}

fn without_bodies(resource: &GenericXdsConfig) -> GenericXdsConfig {
    let mut bare = GenericXdsConfig { xds_config: None, ..resource.clone() };
    if let Some(error) = &mut bare.error_state {
        error.failed_configuration = None;
    }
    bare
}

fn descriptor(name: &str) -> MessageDescriptor {
    let name = format!("envoy.service.status.v3.{name}");
    Schema::bundled().message(&name).expect("the service is built in, which a test asks for")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use chancery_core::{Node, TypeUrl};
    use serde_json::json;

    use super::*;
    use crate::wire::{ConfigStatus, UpdateFailureState};

    const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

    fn node(id: &str) -> Node {
        Node { id: id.to_owned(), ..Node::default() }
    }

    /// S-134, S-135
    #[test]
    fn a_question_may_be_spelt_in_both_ways() {
        for text in [
            r#"{"node_matchers": [{"node_id": {"prefix": "a"}}], "exclude_resource_contents": true}"#,
            r#"{"nodeMatchers": [{"nodeId": {"prefix": "a"}}], "excludeResourceContents": true,
                "later": 1, "node": {"id": "me", "extensions": null}}"#,
        ] {
            let request = client_status_request_from_json(text.as_bytes()).unwrap();
            assert!(request.exclude_contents && request.matchers.matches(&node("ab")));
            assert!(!request.matchers.matches(&node("b")));
        }
        assert!(client_status_request_from_json(b"{}").unwrap().matchers.is_empty());
    }

    /// S-134, S-135
    #[test]
    fn what_is_no_question_is_refused() {
        let refused =
            |text: &str| client_status_request_from_json(text.as_bytes()).unwrap_err().to_string();
        let no_message = "the body is no `ClientStatusRequest` in JSON";
        for text in ["", "[]", "{", "{} x", r#"{"nodeMatchers": 1}"#, &"[".repeat(100_000)] {
            assert_eq!(refused(text), no_message);
        }
        let nothing = refused(r#"{"nodeMatchers": [{"nodeId": {}}]}"#);
        assert!(nothing.starts_with("`node_matchers[0].node_id` has none of"), "{nothing}");
    }

    /// S-134, S-135
    #[test]
    fn a_client_is_written_as_the_descriptors_say() {
        let body = |name: &str| Bytes::from(format!("\n\x01{name}"));
        let resource = GenericXdsConfig {
            type_url: TypeUrl::new(SECRET),
            name: "a".into(),
            version_info: "1".into(),
            xds_config: Some(body("a")),
            last_updated: Some(UNIX_EPOCH + Duration::from_millis(1500)),
            config_status: Some(ConfigStatus::Error),
            client_status: None,
            error_state: Some(UpdateFailureState {
                failed_configuration: Some(body("b")),
                details: "bad".to_owned(),
                ..UpdateFailureState::default()
            }),
        };
        let unknown = GenericXdsConfig {
            type_url: TypeUrl::new("type.googleapis.com/my.Own"),
            config_status: Some(ConfigStatus::NotSent),
            error_state: None,
            ..resource.clone()
        };
        let config = ClientConfig {
            node: Some(Arc::new(node("n"))),
            client_scope: String::new(),
            generic_xds_configs: vec![resource, unknown],
        };
        let written = |limit| client_config_to_json(&Schema::bundled(), &config, limit).unwrap();
        let text = written(usize::MAX).unwrap();
        assert_eq!(written(text.len()).as_ref(), Some(&text));
        assert_eq!(written(text.len() - 1), None);
        let found: Value = serde_json::from_slice(&text).unwrap();
        let at = "1970-01-01T00:00:01.500Z";
        let expected = json!({
            "node": {"id": "n"},
            "genericXdsConfigs": [{
                "typeUrl": SECRET,
                "name": "a",
                "versionInfo": "1",
                "xdsConfig": {"@type": SECRET, "name": "a"},
                "lastUpdated": at,
                "configStatus": "ERROR",
                "errorState": {
                    "failedConfiguration": {"@type": SECRET, "name": "b"},
                    "details": "bad",
                },
            }, {
                "typeUrl": "type.googleapis.com/my.Own",
                "name": "a",
                "versionInfo": "1",
                "lastUpdated": at,
                "configStatus": "NOT_SENT",
            }],
        });
        assert_eq!(found, expected);
        let nobody = ClientConfig::default();
        let empty = client_config_to_json(&Schema::bundled(), &nobody, 2).unwrap();
        assert_eq!(empty.as_deref(), Some(&b"{}"[..]));
    }
}

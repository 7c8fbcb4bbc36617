//! Questions about two forms of one resource: for whoever judges if a client that runs can go from one to the other.
//!
//! Envoy 1.40 takes each form when it starts. A body that is not of its type has no answer. Not here: what is wrong
//! with a form by itself (`rules`, `lint`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::decoded;
use crate::facts::addresses;
use crate::schema::Schema;
use crate::walk::{list_in, message_in, messages_in, number_in, text_in, texts_in, value_in, walk};
use crate::{any, lint};

/// The reason why an Envoy that runs does not go from one form of a resource to another, as the end of a sentence.
pub fn refused_in_place(
    schema: &Schema,
    type_url: &TypeUrl,
    [old, new]: [&Bytes; 2],
) -> Option<String> {
    let read = |body| decoded(schema, type_url, body);
    match type_url.api() {
        Api::Sds => {
            let [old, new] = [secret_kind(&read(old)?)?, secret_kind(&read(new)?)?];
            (old != new).then(|| {
                format!(
                    "`{old}` becomes `{new}`: an Envoy that has the secret refuses that, or goes on without any; \
                     give the new one another name"
                )
            })
        }
        Api::Lds => {
            let (old, new) = (read(old)?, read(new)?);
            let for_grpc = [&old, &new].iter().any(|it| lint::is_only_for_grpc(type_url, it));
            let what = if for_grpc { None } else { socket_change(type_url, &old, &new) };
            what.map(|(what, instead)| {
                format!(
                    "{what}: an Envoy that has the listener refuses that; give it another {instead}"
                )
            })
        }
        _ => None,
    }
}

/// The reason why an Envoy that runs does not take a listener at an address of one that goes in the same change, as the end
/// of a sentence: the socket of that one is still open.
pub fn refused_in_turn(
    schema: &Schema,
    type_url: &TypeUrl,
    [old, new]: [&Bytes; 2],
) -> Option<&'static str> {
    let (old, new) = (decoded(schema, type_url, old)?, decoded(schema, type_url, new)?);
    let (what, _) = [&old, &new]
        .iter()
        .all(|it| !reuses_port(it))
        .then(|| socket_change(type_url, &old, &new))??;
    Some(what)
}

/// The field of a secret that says of which kind it is.
fn secret_kind(secret: &DynamicMessage) -> Option<String> {
    let of = secret.descriptor();
    let kinds = of.oneofs().find(|it| it.name() == "type")?;
    let set = kinds.fields().find(|field| secret.has_field(field));
    set.map(|field| field.name().to_owned())
}

/// The change of a listener that its sockets do not follow, and the part of it that has to be another one then.
fn socket_change(
    type_url: &TypeUrl,
    old: &DynamicMessage,
    new: &DynamicMessage,
) -> Option<(&'static str, &'static str)> {
    match [old, new].map(reuses_port) {
        [one, other] if one != other => Some(("`enable_reuse_port` changes", "name")),
        [true, true] => None,
        _ => {
            let [before, after] = [old, new].map(|it| addresses::of_resource(type_url, it));
            let shares = after.iter().any(|address| before.contains(address));
            let what = match () {
                () if !shares => None,
                () if before != after => {
                    Some("some addresses change and others stay, without `enable_reuse_port`")
                }
                () => (socket_options(old) != socket_options(new))
                    .then_some("socket options change without `enable_reuse_port`"),
            };
            what.map(|what| (what, "address"))
        }
    }
}

/// Returns true for a listener of which each worker has a socket.
fn reuses_port(listener: &DynamicMessage) -> bool {
    match message_in(listener, "enable_reuse_port") {
        Some(flag) => value_in(flag, "value").and_then(Value::as_bool).unwrap_or_default(),
        None => true,
    }
}

/// The settings for which Envoy opens other sockets.
fn socket_options(listener: &DynamicMessage) -> (bool, bool, u32, Vec<&[Value]>) {
    let flag = |field| {
        let flag = message_in(listener, field);
        flag.and_then(|it| value_in(it, "value")).and_then(Value::as_bool).unwrap_or_default()
    };
    let queue = message_in(listener, "tcp_fast_open_queue_length");
    let queue = queue.map(|it| number_in(it, "value")).unwrap_or_default();
    let of_additional = messages_in(listener, "additional_addresses").map(|it| {
        message_in(it, "socket_options").map_or(&[][..], |it| list_in(it, "socket_options"))
    });
    let options = std::iter::once(list_in(listener, "socket_options")).chain(of_additional);
    (flag("transparent"), flag("freebind"), queue, options.collect())
}

/// The type of the extension that a resource of ECDS has.
pub fn extension_type(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<String> {
    let extension = decoded(schema, type_url, body)?;
    let url = any::type_url(message_in(&extension, "typed_config")?)?;
    let name = TypeUrl::message_name_in(&url);
    // The type of such a one stands inside.
    (!name.ends_with(".TypedStruct")).then(|| name.to_owned())
}

/// The types of which the filters may be that come by ECDS: for each name that a resource asks for, those of each place.
pub fn accepted_types(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
) -> BTreeMap<String, Vec<BTreeSet<String>>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let Some(message) = decoded(schema, type_url, body) else { return found };
    walk(&message, &mut |_, message| {
        let Some(source) = message_in(message, "config_discovery") else { return };
        let types = texts_in(source, "type_urls");
        let types = types.map(|url| TypeUrl::message_name_in(url).to_owned()).collect();
        found.entry(text_in(message, "name").to_owned()).or_default().push(types);
    });
    found
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde::de::DeserializeSeed;
    use serde_json::{Value as Json, json};

    use super::*;

    const LISTENER: &str = "envoy.config.listener.v3.Listener";
    const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";

    fn body(schema: &Schema, name: &str, json: &Json) -> Bytes {
        schema.message(name).unwrap().deserialize(json).unwrap().encode_to_vec().into()
    }

    /// The reason against a change.
    fn refused(name: &str, old: &Json, new: &Json) -> String {
        let schema = Schema::bundled();
        let [old, new] = [old, new].map(|it| body(&schema, name, it));
        refused_in_place(&schema, &TypeUrl::new(name), [&old, &new]).unwrap_or_default()
    }

    #[test]
    fn a_secret_stays_of_its_kind() {
        let tls = json!({"name": "a", "tlsCertificate": {"certificateChain": {"filename": "a"}}});
        let other = json!({"name": "a", "tlsCertificate": {"certificateChain": {"filename": "b"}}});
        let authority = json!({"name": "a", "validationContext": {}});
        assert_eq!(refused(SECRET, &tls, &other), "");
        assert!(
            refused(SECRET, &tls, &authority).starts_with("`tls_certificate` becomes `validation")
        );
        assert_eq!(refused(SECRET, &json!({"name": "a"}), &authority), "", "it had none");
    }

    fn listener(port: u16, more: &Json) -> Json {
        let address = json!({"socketAddress": {"address": "127.0.0.1", "portValue": port}});
        let mut listener = json!({"name": "a", "address": address, "filterChains": [{}]});
        let more = more.as_object().unwrap().clone();
        listener.as_object_mut().unwrap().extend(more);
        listener
    }

    #[test]
    fn the_sockets_of_a_listener_follow_some_changes() {
        let change = |old: &Json, new: &Json| refused(LISTENER, old, new);
        let plain = listener(80, &json!({}));
        let alone = |port, mut more: Json| {
            more["enableReusePort"] = false.into();
            listener(port, &more)
        };
        assert!(change(&plain, &alone(80, json!({}))).starts_with("`enable_reuse_port` changes"));
        assert!(change(&alone(81, json!({})), &plain).starts_with("`enable_reuse_port` changes"));
        assert_eq!(change(&plain, &listener(80, &json!({"enableReusePort": true}))), "");
        assert_eq!(change(&plain, &listener(81, &json!({"freebind": true}))), "");
        let one = alone(80, json!({}));
        assert!(change(&one, &alone(80, json!({"freebind": true}))).starts_with("socket options"));
        assert!(
            change(&one, &alone(80, json!({"tcpFastOpenQueueLength": 5})))
                .starts_with("socket options")
        );
        assert_eq!(change(&one, &alone(80, json!({"transparent": false}))), "");
        assert_eq!(change(&one, &alone(80, json!({"tcpBacklogSize": 5}))), "");
        assert_eq!(change(&one, &alone(81, json!({"freebind": true}))), "", "a new socket");
        let address = json!({"socketAddress": {"address": "127.0.0.1", "portValue": 82}});
        let two = alone(80, json!({"additionalAddresses": [{"address": address}]}));
        assert!(change(&one, &two).starts_with("some addresses change"));
    }

    #[test]
    fn a_socket_that_is_open_is_not_opened_again_with_other_options() {
        let schema = Schema::bundled();
        let turn = |old: &Json, new: &Json| {
            let [old, new] = [old, new].map(|it| body(&schema, LISTENER, it));
            refused_in_turn(&schema, &TypeUrl::new(LISTENER), [&old, &new]).unwrap_or_default()
        };
        let (plain, alone) = (listener(80, &json!({})), json!({"enableReusePort": false}));
        let other = listener(80, &json!({"enableReusePort": false, "freebind": true}));
        let alone = listener(80, &alone);
        assert!(turn(&alone, &other).starts_with("socket options change"));
        assert_eq!((turn(&alone, &plain), turn(&plain, &other)), ("", ""));
        assert_eq!(turn(&alone, &alone), "");
    }

    #[test]
    fn the_types_of_a_filter_by_ecds_are_those_of_its_place() {
        let schema = Schema::bundled();
        let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
        let extension = "envoy.config.core.v3.TypedExtensionConfig";
        let json = json!({"name": "f", "typedConfig": {"@type": router}});
        let of = TypeUrl::new(extension);
        let found = extension_type(&schema, &of, &body(&schema, extension, &json));
        assert_eq!(found.as_deref(), router.strip_prefix("type.googleapis.com/"));
        let filter = json!({"name": "f", "configDiscovery": {"typeUrls": [router]}});
        let listener = body(&schema, LISTENER, &json!({"filterChains": [{"filters": [filter]}]}));
        let types = accepted_types(&schema, &TypeUrl::new(LISTENER), &listener);
        let of_filter = vec![BTreeSet::from([found.unwrap()])];
        assert_eq!(types, BTreeMap::from([("f".to_owned(), of_filter)]));
    }
}

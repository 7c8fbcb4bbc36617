//! The client reads everything that the server's encoders write, and no bytes do harm.

use std::time::Duration;

use chancery_core::client::{ReceivedResource, ResponseItem};
use chancery_core::server::{Response, ResponseEntry};
use chancery_core::{ErrorDetail, NameError, Resource};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::wire::encode_response;

prop_compose! {
    /// A response of a server: names are unique, and each wrapper has all fields.
    fn response()(
        sotw in any::<bool>(),
        wrapped in any::<bool>(),
        type_url in proptest::sample::select(vec![CLUSTER, ENDPOINTS]),
        (version, nonce) in ("[a-z0-9]{0,4}", "[a-z0-9]{0,4}"),
        names in proptest::collection::btree_set("[a-zä]{1,4}|xdstp://x/T/[a-z]\\?a=1&b=2", 0..6),
        removed in proptest::collection::vec("[a-z]{1,3}", 0..3),
        errors in proptest::collection::vec(("[a-z]{1,3}", any::<i32>(), "[a-z]{0,3}"), 0..3),
        extra in proptest::collection::vec(
            ("[a-z]{0,9}", 0u64..3, any::<bool>(), any::<bool>(), "[a-z]{1,2}"), 6..7),
    ) -> Response {
        let type_url = TypeUrl::new(type_url);
        let entries = names.into_iter().zip(extra).map(|(name, (text, ttl, beat, alias, version))| {
            let name = name.replace("/T/", &format!("/{}/", type_url.message_name()));
            let body = match type_url.as_str() {
                CLUSTER => Named { name: name.clone(), alt_stat_name: text }.encode_to_vec(),
                _ => named(&name),
            };
            let aliases = if alias { vec!["alias".parse().unwrap()] } else { Vec::new() };
            let ttl = (ttl > 0).then(|| Duration::from_millis(ttl * 700));
            let resource = Resource::new(name.parse().unwrap(), body.into()).with_version(&version);
            let resource = resource.with_ttl(ttl).with_aliases(aliases.clone());
            ResponseEntry {
                name: name.into(),
                aliases: aliases.iter().map(ResourceName::shared).collect(),
                resource: Some(Arc::new(resource)),
                ttl: true,
                heartbeat: beat && (wrapped || !sotw),
            }
        });
        let errors = errors.into_iter().map(|(name, code, message)| NameError {
            name: name.into(),
            error: ErrorDetail { code, message },
        });
        Response {
            variant: if sotw { Variant::Sotw } else { Variant::Delta },
            version: version.into(),
            nonce: nonce.into(),
            entries: entries.collect(),
            removed: removed.into_iter().filter(|_| !sotw).map(Arc::from).collect(),
            errors: errors.collect(),
            wrapped,
            type_url,
        }
    }
}

proptest! {
    /// C-036, C-061, C-071
    #[test]
    fn a_client_reads_what_a_server_wrote(response in response()) {
        let message = encode_response(&response, "server");
        let expected = Some(&response.type_url);
        let reply = reader().read(response.variant, expected, &message.into()).unwrap();
        prop_assert_eq!(&reply.type_url, &response.type_url);
        prop_assert_eq!((&reply.version, &reply.nonce), (&response.version, &response.nonce));
        prop_assert_eq!((&reply.removed, &reply.errors), (&response.removed, &response.errors));
        prop_assert_eq!(reply.variant, response.variant);
        prop_assert_eq!(reply.resources.len(), response.entries.len());
        let wrapped = response.wrapped || response.variant == Variant::Delta;
        for (item, entry) in reply.resources.iter().zip(response.entries.iter()) {
            let sent = entry.resource.as_ref().unwrap();
            match item.as_ref().unwrap() {
                ResponseItem::Resource(ReceivedResource { resource, decoded: None }) => {
                    prop_assert!(!entry.heartbeat);
                    prop_assert_eq!(resource.name(), sent.name());
                    prop_assert_eq!(resource.body(), sent.body());
                    prop_assert_eq!(resource.ttl(), sent.ttl().filter(|_| wrapped));
                    if wrapped {
                        prop_assert_eq!(resource.version(), sent.version());
                        prop_assert_eq!(resource.aliases(), sent.aliases());
                    }
                }
                ResponseItem::Heartbeat(bare) => {
                    prop_assert!(entry.heartbeat);
                    prop_assert_eq!(&bare.name, sent.name());
                    prop_assert_eq!((bare.ttl, &bare.aliases[..]), (sent.ttl(), sent.aliases()));
                    prop_assert!(sent.version().matches(&bare.version));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn no_bytes_are_too_strange(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        response in response(),
        (at, byte) in (any::<proptest::sample::Index>(), any::<u8>()),
    ) {
        let mut message = encode_response(&response, "s");
        if !message.is_empty() {
            let at = at.index(message.len());
            message[at] = byte;
        }
        let cut = Bytes::from(message.clone()).slice(..at.index(message.len() + 1));
        for bytes in [bytes.into(), message.into(), cut] {
            for variant in [Variant::Sotw, Variant::Delta] {
                let expected = TypeUrl::new(CLUSTER);
                let _ = reader().read(variant, Some(&expected), &bytes);
            }
        }
    }
}

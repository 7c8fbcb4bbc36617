//! References to secrets, with the kind that the place of the reference takes: Envoy refuses another one, or waits for
//! the right one for ever.
//!
//! Not here: references that lead nowhere (`complete`), and the types of filters (`in_place`).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::{Api, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use super::decoded;
use crate::facts::{ConfigSource, type_of};
use crate::schema::Schema;
use crate::walk::{message_in, messages_in, text_in, texts_in, walk};

/// A reference to a secret, and the kind that it has to be of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSecret {
    /// The type of the secret.
    pub type_url: TypeUrl,
    /// The name of the secret.
    pub name: ResourceName,
    /// The path of the name, as in `filter_chains[0].transport_socket.typed_config ...`.
    pub path: String,
    /// The kind, as [`secret_kind`] names it.
    pub kind: &'static str,
}

/// The references in a resource to secrets of one kind. There are none if the bytes are not of the type.
pub fn wanted_secrets(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<WantedSecret> {
    let mut found = Vec::new();
    let Some(message) = decoded(schema, type_url, body) else { return found };
    walk(&message, &mut |path, message| match message.descriptor().full_name() {
        TLS => {
            for (at, secret) in
                messages_in(message, "tls_certificate_sds_secret_configs").enumerate()
            {
                let field = format!("tls_certificate_sds_secret_configs[{at}]");
                found.extend(of_secret((path, &field), secret, "tls_certificate"));
            }
            found.extend(in_field(path, message, "validation_context_sds_secret_config"));
        }
        COMBINED => found.extend(in_field(path, message, "validation_context_sds_secret_config")),
        DOWNSTREAM => {
            found.extend(in_field(path, message, "session_ticket_keys_sds_secret_config"));
        }
        _ => {}
    });
    found
}

/// The kind of a secret, as `tls_certificate`. `None` for one without anything in it.
pub fn secret_kind(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<String> {
    let secret = decoded(schema, type_url, body)?;
    let kinds = secret.descriptor().oneofs().find(|oneof| oneof.name() == "type")?;
    let set = kinds.fields().find(|field| secret.has_field(field))?;
    Some(set.name().to_owned())
}

/// A chain of a listener that shows secrets to whoever asks for its server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSecrets {
    /// The server names.
    pub server_names: BTreeSet<String>,
    /// The names of all secrets from which the certificate is taken.
    pub secrets: BTreeSet<String>,
}

/// The chains of a listener that show a secret for server names, so many names at most.
pub fn shown_secrets(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
    secret: &str,
    most: usize,
) -> Vec<ShownSecrets> {
    let (mut found, mut rest) = (Vec::new(), most);
    let Some(listener) = decoded(schema, type_url, body) else { return found };
    for chain in messages_in(&listener, "filter_chains") {
        let mut secrets = BTreeSet::new();
        walk(chain, &mut |_, message| {
            if message.descriptor().full_name() == TLS {
                let shown = messages_in(message, "tls_certificate_sds_secret_configs");
                secrets.extend(shown.map(|it| text_in(it, "name").to_owned()));
            }
        });
        let matching = message_in(chain, "filter_chain_match");
        let names = matching.into_iter().flat_map(|it| texts_in(it, "server_names"));
        if secrets.contains(secret) {
            let server_names: BTreeSet<_> = names.take(rest).map(str::to_owned).collect();
            rest -= server_names.len();
            found.push(ShownSecrets { server_names, secrets });
        }
    }
    found.retain(|it| !it.server_names.is_empty());
    found
}

const TLS: &str = "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext";
const COMBINED: &str = "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.\
                        CombinedCertificateValidationContext";
const DOWNSTREAM: &str = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// The reference in a field that is called after the kind.
fn in_field(path: &str, message: &DynamicMessage, field: &'static str) -> Option<WantedSecret> {
    let kind = field.strip_suffix("_sds_secret_config")?;
    of_secret((path, field), message_in(message, field)?, kind)
}

fn of_secret(
    (path, field): (&str, &str),
    secret: &DynamicMessage,
    kind: &'static str,
) -> Option<WantedSecret> {
    let source = ConfigSource::of(message_in(secret, "sds_config")?);
    let is_ours = matches!(source, ConfigSource::Aggregated | ConfigSource::OwnServer);
    let name = ResourceName::parse(text_in(secret, "name")).ok().filter(|_| is_ours)?;
    let path = format!("{path}.{field}.name");
    Some(WantedSecret { type_url: type_of(Api::Sds, false)?, name, path, kind })
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde::de::DeserializeSeed;
    use serde_json::{Value as Json, json};

    use super::*;

    fn resource(name: &str, json: &Json) -> (TypeUrl, Bytes) {
        let message = Schema::bundled().message(name).unwrap().deserialize(json).unwrap();
        (TypeUrl::new(name), message.encode_to_vec().into())
    }

    fn wants(name: &str, json: &Json) -> Vec<String> {
        let (type_url, body) = resource(name, json);
        let all = wanted_secrets(&Schema::bundled(), &type_url, &body);
        let all = all.iter();
        all.map(|it| format!("{} {} {}", it.name, it.path, it.kind)).collect()
    }

    #[test]
    fn places_of_secrets_take_one_kind() {
        let secret = |name| json!({"name": name, "sdsConfig": {"ads": {}}});
        let tls = json!({"@type": "t/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "sessionTicketKeysSdsSecretConfig": secret("k"),
            "commonTlsContext": {"tlsCertificateSdsSecretConfigs": [secret("a"),
                {"name": "b", "sdsConfig": {"path": "/f"}}, {"name": "c"}],
                "combinedValidationContext": {"validationContextSdsSecretConfig": secret("v")}}});
        let listener = json!({"name": "l", "filterChains": [
            {"transportSocket": {"name": "tls", "typedConfig": tls}}]});
        let at = "filter_chains[0].transport_socket.typed_config";
        assert_eq!(
            wants("envoy.config.listener.v3.Listener", &listener),
            [
                format!("k {at}.session_ticket_keys_sds_secret_config.name session_ticket_keys"),
                format!(
                    "a {at}.common_tls_context.tls_certificate_sds_secret_configs[0].name tls_certificate"
                ),
                format!(
                    "v {at}.common_tls_context.combined_validation_context.\
                         validation_context_sds_secret_config.name validation_context"
                ),
            ]
        );
    }

    #[test]
    fn a_listener_shows_a_secret_for_the_names_of_its_chain() {
        let secrets = json!([{"name": "a", "sdsConfig": {"ads": {}}}, {"name": "c"}]);
        let tls = json!({"@type": "t/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "commonTlsContext": {"tlsCertificateSdsSecretConfigs": secrets}});
        let chains = json!([
            {"filterChainMatch": {"serverNames": ["x", "y"]},
             "transportSocket": {"name": "tls", "typedConfig": tls}},
            {"filterChainMatch": {"serverNames": ["z"]}}]);
        let json = json!({"name": "l", "filterChains": chains});
        let (type_url, body) = resource("envoy.config.listener.v3.Listener", &json);
        let of = |secret, most| shown_secrets(&Schema::bundled(), &type_url, &body, secret, most);
        let [chain] = &of("a", 9)[..] else { panic!("one chain shows it") };
        assert!(chain.server_names.iter().eq(["x", "y"]) && chain.secrets.iter().eq(["a", "c"]));
        assert_eq!(of("a", 1)[0].server_names.len(), 1);
        assert!(of("b", 9).is_empty());
    }

    #[test]
    fn secrets_have_a_kind() {
        let of = |json: Json| {
            let (type_url, body) =
                resource("envoy.extensions.transport_sockets.tls.v3.Secret", &json);
            secret_kind(&Schema::bundled(), &type_url, &body)
        };
        assert_eq!(
            of(json!({"name": "s", "tlsCertificate": {}})),
            Some("tls_certificate".to_owned())
        );
        assert_eq!(of(json!({"name": "s"})), None);
    }
}

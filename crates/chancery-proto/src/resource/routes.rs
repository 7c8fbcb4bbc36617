//! The requests that the routes of a resource take: for whoever tells what is served no more.
//!
//! Not here: domains (`traffic`), and routes that can never match (`lint`).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::decoded;
use crate::schema::Schema;
use crate::walk::{list_in, message_in, messages_in, text_in, texts_in, value_in, walk};

/// The routes of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRoutes {
    /// The domains of the host.
    pub domains: BTreeSet<String>,
    /// The matches of its routes in words, sorted: `prefix "/shop/"`.
    pub matches: Vec<String>,
}

/// The routes of the virtual hosts in a resource, so many routes and domains at most.
pub fn host_routes(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
    most: usize,
) -> Vec<HostRoutes> {
    let mut found = Vec::new();
    let Some(message) = decoded(schema, type_url, body) else { return found };
    let mut room = most;
    walk(&message, &mut |_, host| {
        if host.descriptor().full_name() != VIRTUAL_HOST || room == 0 {
            return;
        }
        let domains: BTreeSet<_> =
            texts_in(host, "domains").take(room).map(str::to_owned).collect();
        let matches = messages_in(host, "routes").filter_map(|it| message_in(it, "match"));
        let mut matches: Vec<_> = matches.take(room).map(words).collect();
        matches.sort();
        room = room.saturating_sub(domains.len() + matches.len());
        found.push(HostRoutes { domains, matches });
    });
    found
}

const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";

fn words(one: &DynamicMessage) -> String {
    let texts = ["prefix", "path", "path_separated_prefix"];
    let is_set = |field: &&&str| value_in(one, field).and_then(Value::as_str).is_some();
    let path = match texts.iter().find(is_set) {
        Some(field) => format!("{field} {:?}", text_in(one, field)),
        None => match message_in(one, "safe_regex") {
            Some(regex) => format!("expression {:?}", text_in(regex, "regex")),
            None => "another match".to_owned(),
        },
    };
    let conditions = ["headers", "query_parameters", "cookies", "dynamic_metadata", "filter_state"];
    let has_more = conditions.iter().any(|field| !list_in(one, field).is_empty());
    let more = if has_more { " with conditions" } else { "" };
    format!("{path}{more}")
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde::de::DeserializeSeed;
    use serde_json::json;

    use super::*;

    #[test]
    fn routes_are_told_by_their_match() {
        let name = "envoy.config.route.v3.RouteConfiguration";
        let routes = json!([{"match": {"prefix": "/"}}, {"match": {"path": "/a"}},
            {"match": {"safeRegex": {"regex": "/b+"}}},
            {"match": {"prefix": "", "headers": [{"name": "h"}]}}, {"match": {}}]);
        let json = json!({"virtualHosts": [{"domains": ["a", "b"], "routes": routes}]});
        let message = Schema::bundled().message(name).unwrap().deserialize(json).unwrap();
        let body = message.encode_to_vec().into();
        let of = |most| host_routes(&Schema::bundled(), &TypeUrl::new(name), &body, most);
        let found = of(20).remove(0);
        assert!(found.domains.iter().eq(["a", "b"]));
        assert_eq!(
            found.matches,
            [
                "another match",
                "expression \"/b+\"",
                "path \"/a\"",
                "prefix \"\" with conditions",
                "prefix \"/\""
            ]
        );
        assert_eq!(of(2)[0].matches.len(), 2);
    }
}

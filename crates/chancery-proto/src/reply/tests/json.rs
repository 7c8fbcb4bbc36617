//! Answers to polls.

use std::time::Duration;

use chancery_core::Resource;
use chancery_core::client::ResponseItem;
use prost::Message;
use serde_json::json;

use super::*;
use crate::json::response_to_json;

fn read(json: serde_json::Value) -> Response {
    reader().read_json(&TypeUrl::new(CLUSTER), json.to_string().as_bytes()).unwrap()
}

/// C-044
#[test]
fn what_the_server_writes_is_read() {
    let resources = ["a", "b"].map(|name| {
        let body = Named { name: name.to_owned(), alt_stat_name: "x".to_owned() };
        Arc::new(Resource::new(name.parse().unwrap(), body.encode_to_vec().into()))
    });
    let type_url = TypeUrl::new(CLUSTER);
    let text = response_to_json(&Schema::bundled(), &type_url, "v", "server", &resources).unwrap();
    let reply = reader().read_json(&type_url, &text).unwrap();
    assert_eq!((&*reply.version, &*reply.nonce, &reply.type_url), ("v", "", &type_url));
    assert_eq!(reply.resources.len(), 2);
    for (item, sent) in reply.resources.iter().zip(&resources) {
        let Ok(ResponseItem::Resource(given)) = item else { panic!("{item:?}") };
        assert_eq!(given.resource.name(), sent.name());
        assert_eq!(given.resource.body(), sent.body());
        assert_eq!(given.resource.version(), sent.version());
    }
}

/// C-044: both spellings, wrappers, and keys of a later version are read.
#[test]
fn what_other_servers_write_is_read_too() {
    let reply = read(json!({
        "version_info": "7", "later": [1], "nonce": null, "canary": true,
        "resources": [
            {"@type": CLUSTER, "name": "a", "connect_timeout": "1s", "later": {"x": 1}},
            {"@type": WRAPPER, "name": "w", "version": "3", "aliases": ["also"], "ttl": "1.5s",
                "resource": {"@type": CLUSTER, "name": "b", "connectTimeout": "1s"}},
            {"@type": WRAPPER, "resourceName": {"name": "beat"}, "version": "3"},
        ],
        "resourceErrors": [{"resource_name": {"name": "xdstp://x/T/i?b=1&a=2"},
            "errorDetail": {"code": 5, "message": "gone"}}],
    }));
    assert_eq!(outcome(&reply), (vec!["a", "w", "beat"], Vec::new()));
    let Ok(ResponseItem::Resource(given)) = &reply.resources[1] else { panic!("{reply:?}") };
    assert!(given.resource.version().matches("3"));
    assert_eq!(given.resource.ttl(), Some(Duration::from_millis(1500)));
    assert_eq!(given.resource.aliases(), ["also".parse().unwrap()]);
    assert!(matches!(&reply.resources[2], Ok(ResponseItem::Heartbeat(_))));
    let error = &reply.errors[0];
    assert_eq!((&*error.name, error.error.code), ("xdstp://x/T/i?a=2&b=1", 5));
}

/// C-055, C-063, C-064
#[test]
fn all_that_is_wrong_is_told_and_costs_no_good_one() {
    let reply = read(json!({"type_url": CLUSTER, "resources": [
        {"@type": CLUSTER, "name": "good"},
        {"@type": CLUSTER, "name": "known", "connectTimeout": "soon"},
        {"@type": CLUSTER, "name": 7},
        {"@type": ENDPOINTS, "clusterName": "e"},
        {"@type": UNKNOWN, "name": "u"},
        {"@type": WRAPPER, "name": "broken", "resource": {"@type": CLUSTER, "name": []}},
        {"@type": WRAPPER, "name": "bare", "resource": {"name": "x"}},
        {"@type": WRAPPER, "name": "late", "ttl": "0s"},
        {"@type": WRAPPER, "name": "late", "ttl": 5},
        {"@type": WRAPPER, "name": ["n"]},
        {"@type": WRAPPER, "name": "n", "aliases": "a"},
        {"name": "untyped"},
        null,
    ]}));
    let (good, flaws) = outcome(&reply);
    assert_eq!(good, ["good"]);
    let names: Vec<_> = flaws.iter().map(|(name, _)| name.unwrap_or("?")).collect();
    let expected = ["known", "?", "?", "?", "broken", "bare", "late", "late", "?", "?", "?", "?"];
    assert_eq!(names, expected);
    let reasons = [
        "its JSON is no `type.googleapis.com/envoy.config.cluster.v3.Cluster`",
        "its JSON is no",
        "it is a `envoy.config.endpoint.v3.ClusterLoadAssignment`",
        "it is a `example.Nothing`",
        "its JSON is no",
        "it is a `` in a response",
        "its `ttl`",
        "its `ttl`",
        "`name` is of the wrong type",
        "`aliases` is of the wrong type",
        "has no `@type`",
        "has no `@type`",
    ];
    for ((_, why), reason) in flaws.iter().zip(reasons) {
        assert!(why.contains(reason), "{why}: {reason}");
    }
}

#[test]
fn a_type_nobody_knows_has_no_bytes() {
    let expected = TypeUrl::new(UNKNOWN);
    let resource = json!({"@type": UNKNOWN, "x": 1});
    let wrapper = json!({"@type": WRAPPER, "name": "w", "resource": resource});
    let text = json!({"resources": [resource, wrapper]}).to_string();
    let reply = reader().read_json(&expected, text.as_bytes()).unwrap();
    let (good, flaws) = outcome(&reply);
    assert!(good.is_empty());
    assert_eq!(flaws[1].0, Some("w"));
    assert!(flaws[1].1.contains("no descriptor"), "{}", flaws[1].1);
}

#[test]
fn what_is_no_response_is_an_error() {
    let deep = "[".repeat(10_000);
    for text in ["", "{", "[]", "1", r#"{"resources": {}}"#, r#"{"version_info": 1}"#, &deep] {
        let error = reader().read_json(&TypeUrl::new(CLUSTER), text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the body is no `DiscoveryResponse` in JSON");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(
        text in r#"(\{|\}|\[|\]|,|:|"|"@type"|"name"|"resources"|"resource"|null|1|a){0,40}"#,
        body in r#"(\{|\}|\[|\]|,|:|"name"|"a"|"connectTimeout"|"1s"|null|1){0,12}"#,
    ) {
        let whole = format!(r#"{{"resources": [{{"@type": "{CLUSTER}", {body}}}]}}"#);
        for text in [text, whole] {
            let _ = reader().read_json(&TypeUrl::new(CLUSTER), text.as_bytes());
        }
    }
}

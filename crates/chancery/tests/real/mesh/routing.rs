//! The cluster of a call, by its path and headers and by chance.

use super::resources::Service;
use super::{Batch, UNAVAILABLE, with_mesh};

/// C-094 to C-098: the same call goes to the same cluster.
#[test]
fn calls_take_the_same_routes() {
    let routes = "
          - {match: {path: /r/exact}, route: {cluster: routing-a}}
          - {match: {path: /r/case, case_sensitive: false}, route: {cluster: routing-b}}
          - {match: {safe_regex: {regex: '/r/[0-9]+'}}, route: {cluster: routing-c}}
          - {match: {prefix: /h/, headers: [{name: x, string_match: {exact: v}}]}, route: {cluster: routing-a}}
          - {match: {prefix: /h/, headers: [{name: n, range_match: {start: 1, end: 10}}]}, route: {cluster: routing-c}}
          - {match: {prefix: /h/, headers: [{name: x, present_match: true, invert_match: true}]}, route: {cluster: routing-b}}
          - {match: {prefix: /i/, headers: [{name: x, string_match: {prefix: AB, ignore_case: true}}]}, route: {cluster: routing-a}}
          - {match: {prefix: /i/, headers: [{name: x, string_match: {safe_regex: {regex: 'a+b'}}}]}, route: {cluster: routing-b}}
          - {match: {prefix: /i/, headers: [{name: x, string_match: {exact: 'c,d'}}]}, route: {cluster: routing-c}}
          - {match: {prefix: /j/, headers: [{name: x-bin, present_match: true}]}, route: {cluster: routing-a}}
          - {match: {prefix: /j/, headers: [{name: content-type, string_match: {exact: application/grpc}}]}, route: {cluster: routing-b}}
          - {match: {prefix: /w/}, route: {weighted_clusters: {clusters: [{name: routing-a, weight: 1}, {name: routing-b, weight: 3}]}}}
          - {match: {prefix: /f/, runtime_fraction: {default_value: {numerator: 20, denominator: HUNDRED}}}, route: {cluster: routing-a}}
          - {match: {prefix: /f/}, route: {cluster: routing-b}}";
    let services = |backends: &super::Backends| {
        let service = Service::new("routing", routes);
        let service = service.of(backends, "routing-a", &["a"]).of(backends, "routing-b", &["b"]);
        vec![service.of(backends, "routing-c", &["c"])]
    };
    with_mesh(services, |mesh, _| {
        let none = Err(UNAVAILABLE);
        for (path, metadata, expected) in [
            ("/r/exact", &[][..], Ok("a")),
            ("/r/exactly", &[], none),
            ("/r/CASE", &[], Ok("b")),
            ("/r/12", &[], Ok("c")),
            ("/r/12a", &[], none),
            ("/h/x", &[("x", "v")], Ok("a")),
            ("/h/x", &[("x", "w")], none),
            ("/h/x", &[], Ok("b")),
            ("/h/x", &[("x", "w"), ("n", "1")], Ok("c")),
            ("/h/x", &[("x", "w"), ("n", "10")], none),
            ("/h/x", &[("n", "one")], Ok("b")),
            ("/i/x", &[("x", "abc")], Ok("a")),
            ("/i/x", &[("x", "aab")], Ok("b")),
            ("/i/x", &[("x", "aabb")], none),
            ("/i/x", &[("x", "c"), ("x", "d")], Ok("c")),
            ("/none", &[], none),
        ] {
            mesh.agree(Batch::one("routing", path).with(metadata), expected);
        }
        // Go matches no `content-type`, although every call has it (gRFC A28).
        for (client, outcomes) in mesh.calls(Batch::one("routing", "/j/x")) {
            let expected = if client == "Go" { none } else { Ok("b") };
            assert_eq!(outcomes[0].backend(), expected, "{client}: {outcomes:?}");
        }
        mesh.share(Batch::one("routing", "/w/x").times(400), "a", 0.25);
        mesh.share(Batch::one("routing", "/f/x").times(400), "a", 0.2);
    });
}

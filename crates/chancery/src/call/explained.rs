//! Explanations as JSON. The keys are a promise to users; new ones may be added.

use std::net::SocketAddr;

use chancery_grpc::{
    CallExplanation, ChildName, DescribedChild, DescribedEndpoint, Description, EndpointLocality,
    ExplainedOutcome, TreePart, Turn,
};
use serde_json::{Value, json};

use super::codes;

/// Returns an explanation as JSON.
pub(super) fn json(explained: &CallExplanation) -> Value {
    let passed = explained
        .passed
        .iter()
        .map(|route| json!({"route": route.index, "name": route.name, "reason": route.reason}));
    let route = explained.route.as_ref().map(
        |route| json!({"route": route.index, "name": route.name, "conditions": route.conditions}),
    );
    let cluster = explained.cluster.as_ref().map(|cluster| {
        let (weight, total) = cluster.share.unzip();
        json!({"name": cluster.name, "weight": weight, "total_weight": total})
    });
    let filters = explained.filters.iter().map(|it| json!({"name": it.name, "effect": it.effect}));
    json!({
        "authority": explained.authority,
        "path": explained.path,
        "virtual_host": explained.virtual_host,
        "domain": explained.domain,
        "passed_routes": passed.collect::<Value>(),
        "passed_total": explained.passed_total,
        "route": route,
        "cluster": cluster,
        "filters": filters.collect::<Value>(),
        "timeout_seconds": explained.timeout.map(|it| it.as_secs_f64()),
        "balancing": explained.balancing.as_ref().map(description),
        "left_out": explained.left_out,
        "outdated": explained.outdated,
        "outcome": outcome(&explained.outcome),
    })
}

fn outcome(outcome: &ExplainedOutcome) -> Value {
    match outcome {
        ExplainedOutcome::Sent(to) => json!({
            "kind": "sent",
            "cluster": to.cluster,
            "priority": to.priority,
            "locality": locality(&to.locality),
            "endpoint": to.endpoint,
            "by_session": to.by_session,
        }),
        ExplainedOutcome::Waits(what) => json!({"kind": "waits", "for": what}),
        ExplainedOutcome::Fails { code, message, waits_if_told } => json!({
            "kind": "fails",
            "code": codes::name(*code),
            "message": message,
            "waits_if_told": waits_if_told,
        }),
        _ => json!({"kind": "unknown"}),
    }
}

fn description(description: &Description) -> Value {
    let mut object = match &description.part {
        TreePart::Priorities => json!({"kind": "priorities"}),
        TreePart::Policy(name) => json!({"kind": "policy", "policy": &**name}),
        TreePart::Cluster { name, problem, drops, in_flight, max_requests } => {
            let drops = drops
                .iter()
                .map(|it| json!({"category": &*it.name, "per_million": it.per_million}));
            json!({
                "kind": "cluster",
                "cluster": &**name,
                "problem": problem.as_deref(),
                "drops": drops.collect::<Value>(),
                "calls_under_way": in_flight,
                "max_requests": max_requests,
            })
        }
        _ => json!({"kind": "unknown"}),
    };
    object["state"] = description.state.to_string().into();
    object["children"] = description.children.iter().map(child).collect();
    object["endpoints"] = description.endpoints.iter().map(endpoint).collect();
    object
}

fn child(child: &DescribedChild) -> Value {
    let mut object = match &child.name {
        ChildName::Priority { place, .. } => json!({"priority": place}),
        ChildName::Locality(of) => json!({"locality": locality(of), "weight": of.weight}),
        ChildName::Successor => json!({"successor": true}),
        ChildName::Sessions => json!({"sessions": true}),
        _ => json!({}),
    };
    object["calls"] = match child.turn {
        Turn::Taken => "taken",
        Turn::PassedOver => "passed over",
        Turn::Spare => "spare",
    }
    .into();
    object["is"] = child.description.as_ref().map_or(Value::Null, description);
    object
}

fn endpoint(described: &DescribedEndpoint) -> Value {
    // An endpoint that has only a name is told by it.
    let shown = |address: &SocketAddr| described.endpoint.shown(*address);
    let addresses = described.endpoint.addresses.iter().map(shown);
    json!({
        "addresses": addresses.collect::<Vec<_>>(),
        "weight": described.endpoint.weight,
        "state": described.state.to_string(),
        "connected": described.connected.as_ref().map(shown),
        "ejected": described.is_ejected,
        "error": described.error.as_deref(),
    })
}

/// Returns a locality as other commands have it.
pub(super) fn locality(locality: &EndpointLocality) -> Value {
    let name = &locality.name;
    json!({"region": name.region, "zone": name.zone, "sub_zone": name.sub_zone})
}

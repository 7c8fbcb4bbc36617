//! Resources that gRPC clients and servers reject, or of which they ignore a part, each with those who do.
//!
//! gRPC reads the same resources as Envoy but accepts less, and says so only in a NACK. Who rejects what was
//! found by asking gRPC Go 1.85, the C core of Python 1.85, gRPC Java and grpc-js, and a test asks them
//! again. Resources of v2 are not checked, because no gRPC client speaks v2.
//!
//! The rules are S-125 ([gRFC
//! A27](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md),
//! [A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)), S-126 (A27) and
//! S-127 ([A36](https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md)). Not here: the weight of
//! a finding for clients of which something is declared (`document`).

mod chains;
mod clusters;
mod endpoints;
mod filters;
mod headers;
mod listeners;
mod only;
mod overrides;
mod policies;
mod rbac;
mod rings;
mod routes;
mod server;
mod server_tls;
mod sources;
mod weighted;

use std::fmt;

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, Value};

pub(crate) use self::only::is_only_for_grpc;
pub(super) use self::server::is_server;
pub(crate) use self::sources::{check as check_sources, may_name as may_name_sources};
use super::Warning;
use crate::any;
use crate::facts::is_v2;
use crate::walk::{list_in, message_in, text_in, value_in};

/// The implementations of gRPC, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Who(u8);

const GO: Who = Who(1);
const CORE: Who = Who(2);
const JAVA: Who = Who(4);
const NODE: Who = Who(8);
const ALL: Who = Who(15);
const NOBODY: Who = Who(0);

/// The side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The code of what somebody rejects.
const REJECTED: &str = "grpc/rejected";
/// The code of what somebody ignores.
const IGNORED: &str = "grpc/ignored";

/// Something that gRPC rejects or ignores.
#[derive(Clone, Debug)]
pub(crate) struct GrpcFinding {
    pub(crate) warning: Warning,
    /// True if every implementation rejects the resource for it.
    pub(crate) is_rejected_by_all: bool,
}

/// The findings of one resource.
struct Findings {
    all: Vec<GrpcFinding>,
    /// Those who do not look at the part that is looked at.
    spared: Who,
}

impl Who {
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// As in `gRPC Go and Java`.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == ALL {
            return f.write_str("gRPC");
        }
        let all = [(GO, "Go"), (CORE, "C-core"), (JAVA, "Java"), (NODE, "Node")];
        let names = all.into_iter().filter(|(who, _)| self.0 & who.0 != 0).map(|(_, name)| name);
        match names.collect::<Vec<_>>().as_slice() {
            [more @ .., last] if !more.is_empty() => {
                write!(f, "gRPC {} and {last}", more.join(", "))
            }
            one => write!(f, "gRPC {}", one.concat()),
        }
    }
}

impl Findings {
    /// Looks at a part of the resource at which some do not look.
    fn sparing(&mut self, who: Who, look: impl FnOnce(&mut Self)) {
        let spared = self.spared;
        self.spared = spared.and(who);
        look(self);
        self.spared = spared;
    }

    /// Somebody rejects the resource, and why.
    fn rejected(&mut self, who: Who, path: impl Into<String>, why: &str) {
        let who = who.without(self.spared);
        if who == NOBODY {
            return;
        }
        let warning = Warning::new(REJECTED, path, format!("{why}: rejected by {who}"));
        self.all.push(GrpcFinding { warning, is_rejected_by_all: who == ALL });
    }

    /// A filter of this type is not known, and not optional. One that is none of Envoy's may be known to a program of
    /// `chancery-grpc`, which has registered it.
    fn unknown_filter(&mut self, kind: &str, path: impl Into<String>) {
        const WHY: &str = "the filter is not known, and not optional";
        if kind.starts_with("envoy.") {
            return self.rejected(ALL, path, WHY);
        }
        let who = ALL.without(self.spared);
        let text = format!("{WHY}, unless a program has registered it: rejected by {who}");
        let warning = Warning::new(REJECTED, path, text);
        self.all.push(GrpcFinding { warning, is_rejected_by_all: false });
    }

    /// Somebody ignores a part of it, and why.
    fn ignored(&mut self, who: Who, path: impl Into<String>, why: &str) {
        let warning = Warning::new(IGNORED, path, format!("{why}: ignored by {who}"));
        self.all.push(GrpcFinding { warning, is_rejected_by_all: false });
    }
}

/// Everything that gRPC rejects or ignores in a resource of this type with this body.
pub(crate) fn findings(type_url: &TypeUrl, message: &DynamicMessage) -> Vec<GrpcFinding> {
    let mut found = Findings { all: Vec::new(), spared: NOBODY };
    if is_v2(type_url) {
        return found.all;
    }
    sources::lint(type_url, message, &mut found);
    match type_url.api() {
        Api::Cds => clusters::lint(message, &mut found),
        Api::Eds => endpoints::lint(message, &mut found),
        Api::Lds if is_of_client(message) => listeners::lint(message, &mut found),
        Api::Lds if is_server(message) => server::lint(message, &mut found),
        Api::Rds => routes::lint("", message, &mut found),
        _ => {}
    }
    found.all
}

/// Returns true for the listener of a client. The name of one may be an address too.
fn is_of_client(listener: &DynamicMessage) -> bool {
    let has_chains = !list_in(listener, "filter_chains").is_empty();
    message_in(listener, "api_listener").is_some() && !(has_chains && only::is_server(listener))
}

/// The name of the message in an `Any`.
fn type_in(any: &DynamicMessage) -> String {
    TypeUrl::message_name_in(&any::type_url(any).unwrap_or_default()).to_owned()
}

/// Returns true for a duration below zero.
fn is_negative(duration: &DynamicMessage) -> bool {
    let seconds = value_in(duration, "seconds").and_then(Value::as_i64);
    let nanos = value_in(duration, "nanos").and_then(Value::as_i32);
    seconds.is_some_and(|it| it < 0) || nanos.is_some_and(|it| it < 0)
}

/// The name of the message in an `Any`, and of a `TypedStruct` that of the message for which it stands.
fn kind_in(any: &DynamicMessage) -> String {
    let name = type_in(any);
    if !name.ends_with(".TypedStruct") {
        return name;
    }
    let of = any::open(any).map(|it| TypeUrl::message_name_in(text_in(&it, "type_url")).to_owned());
    of.unwrap_or_default()
}

/// Returns true for the type of a filter, or of its configuration for a route, that no gRPC has.
fn is_unknown_filter(name: &str) -> bool {
    let filter = name.strip_prefix(FILTERS);
    !filter.is_some_and(|filter| KNOWN_FILTERS.iter().any(|known| filter.starts_with(known)))
}

/// Returns true for the type of a filter that no gRPC has on this side.
fn is_unknown_to(side: Side, name: &str) -> bool {
    let of_the_other = match side {
        Side::Client => "rbac.",
        Side::Server => "fault.",
    };
    let is_of_the_other = name.strip_prefix(FILTERS).is_some_and(|it| it.starts_with(of_the_other));
    is_of_the_other || is_unknown_filter(name)
}

const FILTERS: &str = "envoy.extensions.filters.http.";
const ROUTER: &str = "envoy.extensions.filters.http.router.";

/// The filters that some gRPC knows, if not each.
const KNOWN_FILTERS: [&str; 9] = [
    "router.",
    "fault.",
    "rbac.",
    "gcp_authn.",
    "stateful_session.",
    "composite.",
    "ext_authz.",
    "ext_proc.",
    "rate_limit_quota.",
];

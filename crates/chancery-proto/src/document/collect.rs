//! From messages to resources: wrappers are opened, and names are checked and must be unique.
//!
//! All formats end here, so that the same checks hold for all. A resource with a fault does not
//! keep the others from being read. Not here: the reading of text (`tree`) and binary (`binary`),
//! and the making of one resource (`crate::resource`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_core::{Api, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};

use super::dialect::Dialect;
use super::rule_faults::{CheckedResource, RuleFaults};
use super::{
    BrokenRule, Checks, MAX_FAULTS, ParsedEdit, ParsedResource, Position, RuleCheck, Warning,
    places, reader,
};
use crate::resource::{ResourceError, Wrapper, is_wrapper, resource};
use crate::schema::Schema;
use crate::syntax::{Fault, FaultList, TreeNode};
use crate::wire::WireDuration;
use crate::{any, lint};

/// The place of a resource in a text.
pub(super) struct Location<'n, 'a> {
    /// The node of the resource, if the format has positions at all.
    pub(super) node: Option<&'n TreeNode<'a>>,
    pub(super) dialect: Dialect,
    /// The path of the resource in its document.
    pub(super) path: String,
}

impl Location<'_, '_> {
    /// The path of a field of the resource.
    pub(super) fn below(&self, wrapped: bool, field: &str) -> String {
        let inner = if wrapped { "resource" } else { "" };
        let parts = [self.path.as_str(), inner, field].into_iter();
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }

    fn position(&self) -> Option<Position> {
        self.node.map(TreeNode::position)
    }

    /// The position of a field of the resource, or of the last part of its path that exists.
    fn field_position(&self, path: &str) -> Option<Position> {
        let mut node = self.node?;
        for name in path.split('.').filter(|name| !name.is_empty()) {
            let entries = node.entries().unwrap_or_default();
            let Some(entry) = entries.iter().find(|entry| entry.key == name) else { break };
            node = &entry.node;
        }
        Some(node.position())
    }
}

/// The resources of one text.
pub(super) struct Collector {
    pub(super) resources: Vec<ParsedResource>,
    pub(super) edits: Vec<ParsedEdit>,
    pub(super) faults: FaultList,
    rules: RuleFaults,
    checks: Checks,
    /// The number of warnings whose places were looked up.
    placed: usize,
    seen: BTreeMap<(TypeUrl, ResourceName), (Option<Position>, String)>,
}

/// The codes of faults.
const WRONG_RESOURCE: &str = "wrong-resource";
const DUPLICATE_NAME: &str = "duplicate-name";

/// A fault of one resource, with the field at fault.
struct ResourceFault {
    code: &'static str,
    /// The path of the field in the resource; it may be empty.
    field: String,
    message: String,
    hint: Option<String>,
}

impl ResourceFault {
    fn new(field: &str, message: impl Into<String>) -> Self {
        Self { code: WRONG_RESOURCE, field: field.to_owned(), message: message.into(), hint: None }
    }
}

impl Collector {
    pub(super) fn new(checks: Checks) -> Self {
        let (resources, faults) = (Vec::new(), FaultList::default());
        let (rules, seen) = (RuleFaults::default(), BTreeMap::new());
        let edits = Vec::new();
        Self { resources, edits, faults, rules, checks, placed: 0, seen }
    }

    pub(super) fn has_violations(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The rules that resources break, and the number of those that are left out. A confidential
    /// text is not quoted.
    pub(super) fn violations(&mut self, confidential: bool) -> (Vec<BrokenRule>, usize) {
        std::mem::take(&mut self.rules).into_told(confidential)
    }

    /// Adds a resource, or the faults that keep it from being one.
    pub(super) fn add(
        &mut self,
        schema: &Schema,
        type_url: &str,
        message: &DynamicMessage,
        place: &Location<'_, '_>,
    ) {
        let built = if is_wrapper(message.descriptor().full_name()) {
            unwrapped(schema, message)
        } else {
            Ok((TypeUrl::new(type_url), Wrapper::default(), None))
        };
        let built = built.and_then(|(type_url, wrapper, inner)| {
            let body = inner.as_ref().unwrap_or(message);
            check_host(&type_url, &wrapper)?;
            let field = naming_field(&type_url, inner.is_some(), &wrapper);
            let resource =
                resource(&type_url, body, wrapper).map_err(|error| wrong(&error, field))?;
            let (mut warnings, fatal) = self.of_grpc(&type_url, body);
            warnings.extend(lint::lint_host(&type_url, resource.name(), body));
            warnings.extend(lint::lint_traffic(&type_url, body));
            warnings.extend(lint::lint_secret(&type_url, &resource, body));
            Ok((resource, warnings, fatal, type_url, inner))
        });
        match built {
            Err(wrong) => self.fault(wrong, place),
            Ok((resource, mut warnings, fatal, type_url, inner)) => {
                let position = place.position().unwrap_or(Position::START);
                self.place(&mut warnings, inner.is_some(), place);
                let fatal: Vec<_> = warnings.drain(..fatal).collect();
                if self.is_new(&type_url, resource.name(), place) {
                    let key = (&type_url, resource.name());
                    self.rules.reject(key, fatal, inner.is_some(), place);
                    if self.checks.rules != RuleCheck::Off {
                        let checked = CheckedResource {
                            type_url: &type_url,
                            name: resource.name(),
                            body: inner.as_ref().unwrap_or(message),
                            wrapped: inner.is_some(),
                        };
                        let (rules, checks) = (schema.rules(), self.checks);
                        warnings.extend(self.rules.check(rules, checks, &checked, place));
                    }
                    let resource = Arc::new(resource);
                    let values = None;
                    let parsed = ParsedResource { type_url, resource, position, warnings, values };
                    self.resources.push(parsed);
                }
            }
        }
    }

    /// The findings about gRPC, if it is among the clients or only it can use the resource. Those come first
    /// for which all clients reject the resource, and their number is told.
    fn of_grpc(&self, type_url: &TypeUrl, body: &DynamicMessage) -> (Vec<Warning>, usize) {
        let clients = self.checks.clients;
        let is_only = lint::is_only_for_grpc(type_url, body);
        if !clients.hears_of_grpc() && !is_only {
            return (Vec::new(), 0);
        }
        let is_fault = self.checks.rules == RuleCheck::Fault;
        let is_fatal = is_fault && clients.rejects_with_grpc(is_only);
        let mut found = lint::grpc_findings(type_url, body);
        // No route of a gRPC client leads to a cluster of another type: it is there for the Envoys.
        let of_type = ["type", "cluster_type"];
        if clients.has_envoy() && found.iter().any(|it| of_type.contains(&&*it.warning.path)) {
            found.clear();
        }
        let found = found.into_iter();
        let (fatal, others): (Vec<_>, Vec<_>) =
            found.partition(|finding| is_fatal && finding.is_rejected_by_all);
        let count = fatal.len();
        (fatal.into_iter().chain(others).map(|finding| finding.warning).collect(), count)
    }

    /// Adds an edit, unless the text says something of this resource already.
    pub(super) fn add_edit(&mut self, edit: ParsedEdit, place: &Location<'_, '_>) {
        if self.is_new(&edit.type_url, &edit.name, place) {
            self.edits.push(edit);
        }
    }

    /// The warnings about a patch. A message in a list is written whole, so it can be judged; all else may be
    /// as it should together with what is below.
    pub(super) fn edit_warnings(
        &mut self,
        schema: &Schema,
        (type_url, name): (&TypeUrl, &ResourceName),
        message: &DynamicMessage,
        place: &Location<'_, '_>,
    ) -> Vec<Warning> {
        let Checks { rules, clients } = self.checks;
        let is_for_grpc = clients.hears_of_grpc() || lint::is_only_for_grpc(type_url, message);
        let mut warnings = if is_for_grpc { lint::lint(type_url, message) } else { Vec::new() };
        warnings.extend(lint::lint_traffic(type_url, message));
        // Where broken rules are faults, they are found in what comes of the patch.
        if rules == RuleCheck::Warn || (rules == RuleCheck::Fault && !clients.has_envoy()) {
            let checked = CheckedResource { type_url, name, body: message, wrapped: false };
            let checks = Checks { rules: RuleCheck::Warn, clients };
            warnings.extend(self.rules.check(schema.rules(), checks, &checked, place));
        }
        warnings.retain(|warning| warning.path.contains('['));
        self.place(&mut warnings, false, place);
        warnings
    }

    /// Adds the fault of an edit.
    pub(super) fn wrong_edit(&mut self, message: String, place: &Location<'_, '_>) {
        self.fault(ResourceFault::new("", message), place);
    }

    /// The checks of resources.
    pub(super) fn checks(&self) -> Checks {
        self.checks
    }

    /// Looks up the places of the first warnings of the text. A lookup walks over lists and maps, and
    /// there may be a warning for each of their items; the other ones are at their resource.
    fn place(&mut self, warnings: &mut [Warning], wrapped: bool, place: &Location<'_, '_>) {
        let Some(node) = place.node else { return };
        for warning in warnings.iter_mut().take(MAX_FAULTS - self.placed) {
            let found = places::find_written(node, place.dialect, wrapped, &warning.path);
            warning.position = Some(found);
            self.placed += 1;
        }
    }

    /// Adds the resource in an `Any` that has its content as bytes or as written fields.
    pub(super) fn add_any(
        &mut self,
        schema: &Schema,
        any: &DynamicMessage,
        place: &Location<'_, '_>,
    ) {
        let url = any::type_url(any).unwrap_or_default();
        match open_any(schema, any, &url) {
            Ok(message) => self.add(schema, &url, &message, place),
            Err(wrong) => self.fault(ResourceFault { field: String::new(), ..wrong }, place),
        }
    }

    /// Returns true for the first resource of a name. The second one is a fault.
    fn is_new(
        &mut self,
        type_url: &TypeUrl,
        name: &ResourceName,
        place: &Location<'_, '_>,
    ) -> bool {
        let key = (type_url.clone(), name.clone());
        let Some((position, path)) = self.seen.get(&key) else {
            self.seen.insert(key, (place.position(), place.path.clone()));
            return true;
        };
        let first = position.map_or_else(|| path.clone(), |position| position.to_string());
        let (kind, name) = (type_url.short(), cut(name.as_str(), MAX_NAME_BYTES));
        let message = format!("{kind} `{name}` is defined twice; it was first defined at {first}");
        let again = ResourceFault::new("", message);
        let hint = Some("remove one of the two, or give it another name".to_owned());
        self.fault(ResourceFault { code: DUPLICATE_NAME, hint, ..again }, place);
        false
    }

    fn fault(&mut self, wrong: ResourceFault, place: &Location<'_, '_>) {
        let path = &place.path;
        let dot = if path.is_empty() || wrong.field.is_empty() { "" } else { "." };
        self.faults.push(|| Fault {
            code: wrong.code,
            position: place.field_position(&wrong.field),
            path: format!("{path}{dot}{}", wrong.field),
            message: wrong.message,
            hint: wrong.hint,
            confidential: false,
        });
    }
}

type Unwrapped = (TypeUrl, Wrapper, Option<DynamicMessage>);

fn unwrapped(schema: &Schema, message: &DynamicMessage) -> Result<Unwrapped, ResourceFault> {
    let field = |name| message.get_field_by_name(name).map(std::borrow::Cow::into_owned);
    for unserved in ["resource_name", "cache_control", "metadata"] {
        if message.has_field_by_name(unserved) {
            return Err(ResourceFault::new(unserved, "this field of a wrapper is not served"));
        }
    }
    let body = field("resource").filter(|_| message.has_field_by_name("resource"));
    let body = body.as_ref().and_then(Field::as_message);
    let body =
        body.ok_or_else(|| ResourceFault::new("resource", "a wrapper without a resource in it"))?;
    let url = any::type_url(body).unwrap_or_default();
    let inner = open_any(schema, body, &url)?;
    if is_wrapper(inner.descriptor().full_name()) {
        return Err(ResourceFault::new("resource", "a wrapper in a wrapper"));
    }
    let text = |field: Field| field.as_str().map(str::to_owned);
    let wrapper = Wrapper {
        name: field("name").and_then(text).filter(|name| !name.is_empty()),
        ttl: message.has_field_by_name("ttl").then(|| ttl(field("ttl"))).transpose()?,
        aliases: match field("aliases") {
            Some(Field::List(aliases)) => aliases.into_iter().filter_map(text).collect(),
            _ => Vec::new(),
        },
    };
    Ok((TypeUrl::new(&url), wrapper, Some(inner)))
}

fn open_any(
    schema: &Schema,
    body: &DynamicMessage,
    url: &str,
) -> Result<DynamicMessage, ResourceFault> {
    if schema.message(url).is_none() {
        let mut wrong = ResourceFault::new("resource", format!("unknown type `{url}`"));
        wrong.code = reader::UNKNOWN_TYPE;
        wrong.hint = Some(UNKNOWN_TYPE.to_owned());
        return Err(wrong);
    }
    any::open(body)
        .ok_or_else(|| ResourceFault::new("resource", format!("the bytes are no `{url}`")))
}

fn ttl(field: Option<Field>) -> Result<Duration, ResourceFault> {
    let message = field.as_ref().and_then(Field::as_message);
    let number = |number| message?.get_field_by_number(number);
    let seconds = number(1).and_then(|seconds| seconds.as_i64()).unwrap_or(0);
    let nanos = number(2).and_then(|nanos| nanos.as_i32()).unwrap_or(0);
    let time = Duration::try_from(WireDuration { seconds, nanos });
    time.ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| ResourceFault::new("ttl", "a TTL must be longer than nothing"))
}

/// Checks the name of a virtual host: VHDS clients ask for `ROUTE_CONFIGURATION/HOST`
/// ([S-092](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)),
/// and the body does not contain that name.
fn check_host(type_url: &TypeUrl, wrapper: &Wrapper) -> Result<(), ResourceFault> {
    let named = wrapper.name.as_ref().is_some_and(|name| name.contains('/'));
    if type_url.api() != Api::Vhds || named {
        return Ok(());
    }
    let message = match &wrapper.name {
        Some(name) => {
            let name = cut(name, MAX_NAME_BYTES);
            format!("`{name}` does not say which route configuration the host is of")
        }
        None => "a virtual host does not say which route configuration it is of".to_owned(),
    };
    let hint = "put a `type.googleapis.com/envoy.service.discovery.v3.Resource` around it, with \
                the name `ROUTE_CONFIGURATION/HOST`";
    Err(ResourceFault { hint: Some(hint.to_owned()), ..ResourceFault::new("name", message) })
}

/// The path of the field that names a resource: the one of the wrapper, or the resource's own.
fn naming_field(type_url: &TypeUrl, wrapped: bool, wrapper: &Wrapper) -> String {
    if wrapper.name.is_some() {
        return "name".to_owned();
    }
    let endpoints = type_url.message_name().ends_with(".ClusterLoadAssignment");
    let own = if endpoints { "cluster_name" } else { "name" };
    if wrapped { format!("resource.{own}") } else { own.to_owned() }
}

fn wrong(error: &ResourceError, field: String) -> ResourceFault {
    ResourceFault::new(&field, error.with_causes())
}

/// The hint for unknown types.
pub(super) const UNKNOWN_TYPE: &str =
    "types that are not built in are made known by `--descriptor-set FILE`";

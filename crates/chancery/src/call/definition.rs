//! Definitions of services and types as text in the language of protobuf.

use std::fmt::Write;

use prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    MethodDescriptor, ServiceDescriptor,
};

/// Returns the definition of a symbol: a service, a method, a message or an enum.
pub(super) fn of(pool: &DescriptorPool, symbol: &str) -> Option<String> {
    if let Some(found) = pool.get_service_by_name(symbol) {
        return Some(service(&found));
    }
    if let Some(found) = pool.get_message_by_name(symbol) {
        return Some(message(&found));
    }
    if let Some(found) = pool.get_enum_by_name(symbol) {
        return Some(enumeration(&found));
    }
    let (service, method) = symbol.split_once('/').or_else(|| symbol.rsplit_once('.'))?;
    let service = pool.get_service_by_name(service)?;
    let found = service.methods().find(|it| it.name() == method)?;
    let types = [found.input(), found.output()];
    let mut text = self::method(&found);
    for (place, of) in types.iter().enumerate() {
        if place == 0 || *of != types[0] {
            text += "\n";
            text += &message(of);
        }
    }
    Some(text)
}

fn service(service: &ServiceDescriptor) -> String {
    let mut text = format!("service {} {{\n", service.full_name());
    for one in service.methods() {
        text += "  ";
        text += &method(&one);
    }
    text + "}\n"
}

/// The line of a method.
pub(super) fn method(method: &MethodDescriptor) -> String {
    let stream = |is_stream| if is_stream { "stream " } else { "" };
    format!(
        "rpc {}({}{}) returns ({}{});\n",
        method.name(),
        stream(method.is_client_streaming()),
        method.input().full_name(),
        stream(method.is_server_streaming()),
        method.output().full_name()
    )
}

fn message(message: &MessageDescriptor) -> String {
    let mut text = format!("message {} {{\n", message.full_name());
    let oneofs: Vec<_> = message.oneofs().filter(|oneof| !oneof.is_synthetic()).collect();
    for one in message.fields() {
        let oneof = one.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        if oneof.is_none() {
            text += &field(&one, "  ");
        }
    }
    for oneof in oneofs {
        // A `String` takes all that is written to it.
        let _ = writeln!(text, "  oneof {} {{", oneof.name());
        for one in oneof.fields() {
            text += &field(&one, "    ");
        }
        text += "  }\n";
    }
    text + "}\n"
}

fn field(field: &FieldDescriptor, indent: &str) -> String {
    let label = match field.cardinality() {
        _ if field.is_map() => "",
        Cardinality::Repeated => "repeated ",
        Cardinality::Required => "required ",
        Cardinality::Optional if field.field_descriptor_proto().proto3_optional() => "optional ",
        Cardinality::Optional => "",
    };
    format!("{indent}{label}{} {} = {};\n", kind(field), field.name(), field.number())
}

fn kind(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("map<{}, {}>", kind(&key), kind(&value))
        }
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(found) => found.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn enumeration(found: &EnumDescriptor) -> String {
    let values = found.values().map(|it| format!("  {} = {};\n", it.name(), it.number()));
    format!("enum {} {{\n{}}}\n", found.full_name(), values.collect::<String>())
}

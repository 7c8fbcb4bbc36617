//! The OpenAPI document, made from the table of endpoints and the types of their answers.

use serde_json::{Map, Value, json};

use super::endpoint::{Ask, ENDPOINTS, Endpoint};
use super::error::ErrorDocument;
use super::parameter::Parameter;
use super::schema::{Described, Types};

/// The whole document.
pub(super) fn document() -> Value {
    let (mut types, mut paths) = (Types::default(), Map::new());
    let error = ErrorDocument::schema(&mut types);
    for endpoint in &ENDPOINTS {
        let get = operation(endpoint, &error, &mut types);
        let mut operations = Map::from_iter([("get".to_owned(), get)]);
        if let Some(body) = endpoint.post {
            operations.insert("post".to_owned(), post(endpoint, body, &error, &mut types));
        }
        paths.insert(endpoint.path.to_owned(), Value::Object(operations));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The admin API of Chancery",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Keys, paths and parameters may be added. Times are seconds since 1970.",
        },
        "paths": paths,
        "components": {"schemas": types.into_json()},
    })
}

/// The keys of the rows in the answers of an endpoint, or of the answer itself.
pub(super) fn fields(endpoint: &Endpoint) -> Vec<String> {
    let mut types = Types::default();
    let answer = (endpoint.answer)(&mut types);
    let names = |schema: &Value| {
        let properties = types.properties(schema);
        properties.map(|all| all.keys().cloned().collect()).unwrap_or_default()
    };
    match endpoint.rows {
        None => names(&answer),
        Some(rows) => {
            let rows = types.properties(&answer).and_then(|all| all.get(rows));
            rows.map(|rows| names(&rows["items"])).unwrap_or_default()
        }
    }
}

fn operation(endpoint: &Endpoint, error: &Value, types: &mut Types) -> Value {
    let in_path =
        endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    let in_query = endpoint.parameters.iter().map(|parameter| described(parameter));
    json!({
        "summary": endpoint.about,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": responses(endpoint, types, error),
    })
}

fn post(
    endpoint: &Endpoint,
    body: fn(&mut Types) -> Value,
    error: &Value,
    types: &mut Types,
) -> Value {
    json!({
        "summary": endpoint.about,
        "requestBody": {"required": true, "content": content(&body(types))},
        "responses": responses(endpoint, types, error),
    })
}

fn described(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name, "in": "query", "description": parameter.about,
        "schema": parameter.schema(),
    })
}

fn responses(endpoint: &Endpoint, types: &mut Types, error: &Value) -> Value {
    let answer = (endpoint.answer)(types);
    let answer = match endpoint.ask {
        Ask::Events => json!({"text/event-stream": {"schema": answer}}),
        _ => content(&answer),
    };
    json!({
        "200": {"description": "the answer", "content": answer},
        "default": {"description": "the reason why there is none", "content": content(error)},
    })
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All objects in a value.
    fn objects<'v>(value: &'v Value, found: &mut Vec<&'v Map<String, Value>>) {
        match value {
            Value::Object(object) => {
                found.push(object);
                object.values().for_each(|value| objects(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| objects(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_property_is_described() {
        let (document, mut all) = (document(), Vec::new());
        objects(&document, &mut all);
        for object in all {
            if let Some(name) = object.get("$ref").and_then(Value::as_str) {
                let target = document.pointer(name.trim_start_matches('#'));
                assert!(target.is_some_and(Value::is_object), "{name}");
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            assert!(schema["description"].as_str().is_some_and(|it| !it.is_empty()), "{name}");
            for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
                assert!(
                    schema["description"].as_str().is_some_and(|it| it.ends_with('.')),
                    "{name}.{key}: {schema}"
                );
            }
        }
    }

    #[test]
    fn rows_have_the_keys_that_can_be_selected() {
        for endpoint in &ENDPOINTS {
            if endpoint.parameters.iter().any(|parameter| parameter.name == "fields") {
                assert!(!fields(endpoint).is_empty(), "{}", endpoint.path);
            }
        }
    }
}

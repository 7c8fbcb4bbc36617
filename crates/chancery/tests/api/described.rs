//! Answers beside the OpenAPI document: each key is described, each required key is there, and each value
//! is of the type that is stated. It knows the part of JSON Schema that the document uses, and fails at
//! whatever else is in it.

use std::collections::BTreeSet;

use serde_json::Value;

/// A description of an API, and the paths whose answers were compared with it.
pub(crate) struct Described {
    document: Value,
    checked: BTreeSet<String>,
}

impl Described {
    pub(crate) fn new(document: Value) -> Self {
        assert_eq!(document["openapi"], "3.1.0");
        Self { document, checked: BTreeSet::new() }
    }

    /// Compares an answer at a path with what is described for the status.
    pub(crate) fn check(&mut self, path: &str, status: &str, answer: &Value) {
        let responses = &self.document["paths"][path]["get"]["responses"];
        let content = responses[status]["content"].as_object();
        let schema = content.and_then(|kinds| kinds.values().next()).map(|kind| &kind["schema"]);
        let schema = schema.unwrap_or(&Value::Null);
        assert!(schema.is_object(), "{path} has no answer {status}");
        if let Err(fault) = self.fits(schema, answer, path) {
            panic!("{fault}\n{answer:#}");
        }
        if status == "200" {
            self.checked.insert(path.to_owned());
        }
    }

    pub(crate) fn all_paths_were_checked(&self) {
        let all = self.document["paths"].as_object().unwrap();
        let missing: Vec<_> = all.keys().filter(|path| !self.checked.contains(*path)).collect();
        assert!(missing.is_empty(), "no answer of {missing:?} was compared");
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = schema.as_object().ok_or_else(|| format!("{at}: no schema"))?;
        for (key, rule) in schema {
            let fits = match key.as_str() {
                "description" | "title" | "default" => true,
                "$ref" => {
                    let target = rule.as_str().unwrap().trim_start_matches('#');
                    let target = self.document.pointer(target);
                    return self.fits(target.unwrap_or(&Value::Null), value, at);
                }
                "anyOf" => {
                    let one = |one| self.fits(one, value, at).is_ok();
                    let variants = rule.as_array().unwrap();
                    if !variants.iter().any(one) && !value.is_null() {
                        return self.fits(&variants[0], value, at);
                    }
                    variants.iter().any(one)
                }
                "type" => match rule.as_str().unwrap() {
                    "null" => value.is_null(),
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    other => panic!("{at}: a type `{other}`"),
                },
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_u64() >= rule.as_u64(),
                "required" => {
                    let missing = |key: &&Value| value.get(key.as_str().unwrap()).is_none();
                    if let Some(key) = rule.as_array().unwrap().iter().find(missing) {
                        return Err(format!("{at}: there is no {key}"));
                    }
                    true
                }
                "properties" => {
                    for (key, value) in value.as_object().into_iter().flatten() {
                        let schema =
                            rule.get(key).ok_or_else(|| format!("{at}.{key} is not described"))?;
                        self.fits(schema, value, &format!("{at}.{key}"))?;
                    }
                    true
                }
                "additionalProperties" => {
                    for (key, value) in value.as_object().into_iter().flatten() {
                        self.fits(rule, value, &format!("{at}.{key}"))?;
                    }
                    true
                }
                "items" => {
                    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(rule, value, &format!("{at}[{index}]"))?;
                    }
                    true
                }
                other => panic!("{at}: `{other}` is not compared"),
            };
            if !fits {
                return Err(format!("{at} is {value}, and not of `{key}: {rule}`"));
            }
        }
        Ok(())
    }
}

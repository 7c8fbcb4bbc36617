//! The paths of the discovery services: the methods of gRPC and the paths of REST, as the
//! descriptors have them.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_core::{Scope, TypeUrl, Variant};
use chancery_proto::schema::{MethodKind, Schema};

/// The paths of all discovery services.
#[derive(Clone, Debug)]
pub(crate) struct ServicePaths(Arc<PathTables>);

#[derive(Debug)]
struct PathTables {
    grpc: HashMap<(Scope, Variant), String>,
    rest: HashMap<TypeUrl, String>,
}

impl ServicePaths {
    pub(crate) fn new(schema: &Schema) -> Self {
        let methods = schema.services(false).into_iter().flat_map(|service| service.methods);
        let mut all = PathTables { grpc: HashMap::new(), rest: HashMap::new() };
        for method in methods {
            match (method.kind, method.type_url, method.rest_path) {
                (MethodKind::Fetch, Some(type_url), Some(path)) => {
                    all.rest.insert(type_url, path);
                }
                (MethodKind::Fetch, ..) => {}
                (kind, type_url, _) => {
                    let scope = type_url.map_or(Scope::Aggregated, Scope::Only);
                    let is_delta = kind == MethodKind::Delta;
                    let variant = if is_delta { Variant::Delta } else { Variant::Sotw };
                    all.grpc.insert((scope, variant), method.path);
                }
            }
        }
        Self(Arc::new(all))
    }

    /// Returns the method of a stream.
    pub(crate) fn method(&self, scope: &Scope, variant: Variant) -> Option<&str> {
        self.0.grpc.get(&(scope.clone(), variant)).map(String::as_str)
    }

    /// Returns the path of the polls of this type.
    pub(crate) fn rest(&self, type_url: &TypeUrl) -> Option<&str> {
        self.0.rest.get(type_url).map(String::as_str)
    }
}

//! The paths of the discovery services: the methods of gRPC and the paths of REST, as the
//! descriptors have them.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_core::{TypeUrl, Variant};
use chancery_proto::schema::{MethodKind, Schema};

/// The paths of all discovery services.
#[derive(Clone, Debug)]
pub(crate) struct ServicePaths(Arc<All>);

#[derive(Debug)]
struct All {
    grpc: HashMap<(Option<TypeUrl>, bool), String>,
    rest: HashMap<TypeUrl, String>,
}

impl ServicePaths {
    pub(crate) fn new(schema: &Schema) -> Self {
        let methods = schema.services(false).into_iter().flat_map(|service| service.methods);
        let mut all = All { grpc: HashMap::new(), rest: HashMap::new() };
        for method in methods {
            match (method.kind, method.type_url, method.rest_path) {
                (MethodKind::Fetch, Some(type_url), Some(path)) => {
                    all.rest.insert(type_url, path);
                }
                (MethodKind::Fetch, ..) => {}
                (kind, type_url, _) => {
                    all.grpc.insert((type_url, kind == MethodKind::Delta), method.path);
                }
            }
        }
        Self(Arc::new(all))
    }

    /// Returns the method of a stream of this type, or of all types.
    pub(crate) fn method(&self, type_url: Option<&TypeUrl>, variant: Variant) -> Option<&str> {
        let key = (type_url.cloned(), variant == Variant::Delta);
        self.0.grpc.get(&key).map(String::as_str)
    }

    /// Returns the path of the polls of this type.
    pub(crate) fn rest(&self, type_url: &TypeUrl) -> Option<&str> {
        self.0.rest.get(type_url).map(String::as_str)
    }
}

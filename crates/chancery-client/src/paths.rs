//! Where a type is asked for: the methods of gRPC and the paths of REST, as the descriptors say.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_core::{TypeUrl, Variant};
use chancery_proto::schema::{MethodKind, Schema};

/// The paths of all discovery services.
#[derive(Clone, Debug)]
pub(crate) struct Paths(Arc<HashMap<(Option<TypeUrl>, bool), String>>);

impl Paths {
    pub(crate) fn new(schema: &Schema) -> Self {
        let methods = schema.services(false).into_iter().flat_map(|service| service.methods);
        let stream = methods.filter(|method| method.kind != MethodKind::Fetch);
        let paths =
            stream.map(|method| ((method.type_url, method.kind == MethodKind::Delta), method.path));
        Self(Arc::new(paths.collect()))
    }

    /// The method for a stream of this type, or of all.
    pub(crate) fn method(&self, type_url: Option<&TypeUrl>, variant: Variant) -> Option<&str> {
        let key = (type_url.cloned(), variant == Variant::Delta);
        self.0.get(&key).map(String::as_str)
    }
}

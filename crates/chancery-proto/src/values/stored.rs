//! Values as bytes, for whoever keeps them over a restart of the program.
//!
//! Paths and templates are kept as they are written, and read again. Bytes that are no values are refused,
//! whatever they are. The places in a text are not kept, as those of a patch are not.

use chancery_core::{ResourceName, TypeUrl};

use super::{FilledField, NodeValues, Template, ValuePath};
use crate::patch::stored::{read_checks, read_text, take, write_checks, write_length, write_text};
use crate::schema::Schema;

impl NodeValues {
    /// The values as bytes, without the type and the name of the resource.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_checks(self.checks, &mut bytes);
        write_length(self.fields.len(), &mut bytes);
        for FilledField { path, template, .. } in &self.fields {
            write_text(&path.to_string(), &mut bytes);
            write_text(&template.to_string(), &mut bytes);
        }
        bytes
    }

    /// The values of a resource that [`to_bytes`](Self::to_bytes) wrote; `None` if these bytes are none.
    pub fn from_bytes(
        schema: &Schema,
        type_url: &TypeUrl,
        name: &ResourceName,
        mut bytes: &[u8],
    ) -> Option<Self> {
        let from = &mut bytes;
        let checks = read_checks(from)?;
        let mut fields = Vec::new();
        for _ in 0..u32::from_le_bytes(take(from)?) {
            let path = ValuePath::parse(read_text(from)?).ok()?;
            let template = Template::parse(read_text(from)?).ok()?;
            fields.push(FilledField { path, template, place: None });
        }
        let key = (type_url.clone(), name.clone());
        from.is_empty().then(|| Self::new(schema, key, checks, fields))
    }
}

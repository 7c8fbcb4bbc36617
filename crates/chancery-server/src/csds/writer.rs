//! The writer of an answer, client by client, up to a bound.

use bytes::Bytes;
use chancery_proto::json::client_config_to_json;
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;
use chancery_proto::wire::{ClientConfig, encode_client_status};

use super::client::Bodies;
use super::{Csds, CsdsRefused, too_large};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// A `ClientStatusResponse` in protobuf.
    Wire,
    /// The same in JSON.
    Json,
}

/// An answer that is being written.
pub(super) struct AnswerWriter {
    schema: Schema,
    form: AnswerForm,
    text: Vec<u8>,
    pub(super) bodies: Bodies,
}

impl AnswerWriter {
    pub(super) fn new(schema: &Schema, form: AnswerForm, excludes_contents: bool) -> Self {
        let bodies = Bodies::new(Viewer::new(schema), !excludes_contents);
        Self { schema: schema.clone(), form, text: Vec::new(), bodies }
    }

    /// The bytes that there is room for.
    pub(super) fn room(&self) -> usize {
        Csds::MAX_ANSWER.saturating_sub(self.text.len())
    }

    /// Writes one more client.
    pub(super) fn add(&mut self, client: &ClientConfig) -> Result<(), CsdsRefused> {
        match self.form {
            // The parts of a repeated field may stand one after the other.
            AnswerForm::Wire => {
                self.text.extend_from_slice(&encode_client_status(std::slice::from_ref(client)));
            }
            AnswerForm::Json => {
                let json = client_config_to_json(&self.schema, client, self.room());
                let json = json.map_err(|_| CsdsRefused::Failed)?.ok_or_else(too_large)?;
                self.text.extend_from_slice(if self.text.is_empty() { JSON_HEAD } else { b"," });
                self.text.extend_from_slice(&json);
            }
        }
        if self.text.len() > Csds::MAX_ANSWER { Err(too_large()) } else { Ok(()) }
    }

    /// The whole answer.
    pub(super) fn finish(mut self) -> Bytes {
        if self.form == AnswerForm::Json {
            if self.text.is_empty() {
                self.text.extend_from_slice(JSON_HEAD);
            }
            self.text.extend_from_slice(b"]}\n");
        }
        self.text.into()
    }
}

/// The beginning of an answer in JSON.
const JSON_HEAD: &[u8] = b"{\"config\":[";

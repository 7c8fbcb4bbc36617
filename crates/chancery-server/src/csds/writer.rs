//! The writer of an answer, client by client, up to a bound.

use bytes::Bytes;
use chancery_proto::json::client_config_to_json;
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;
use chancery_proto::wire::{ClientConfig, GenericXdsConfig, encode_client_status};

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

    /// Writes one more client.
    pub(super) fn add(&mut self, client: &ClientConfig) -> Result<(), CsdsRefused> {
        // It is looked at before it is written: the bodies of one client alone can be too large.
        let room = Csds::MAX_ANSWER.saturating_sub(self.text.len());
        if client.generic_xds_configs.iter().map(least_bytes).sum::<usize>() > room {
            return Err(too_large());
        }
        match self.form {
            // The parts of a repeated field may stand one after the other.
            AnswerForm::Wire => {
                self.text.extend_from_slice(&encode_client_status(std::slice::from_ref(client)));
            }
            AnswerForm::Json => {
                let json = client_config_to_json(&self.schema, client);
                let json = json.map_err(|_| CsdsRefused::Failed)?;
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

/// The bytes that a resource has in an answer at least.
fn least_bytes(resource: &GenericXdsConfig) -> usize {
    let body = resource.xds_config.as_ref().map_or(0, Bytes::len);
    let failed = resource.error_state.as_ref().and_then(|it| it.failed_configuration.as_ref());
    body + failed.map_or(0, Bytes::len) + resource.name.len() + resource.type_url.as_str().len()
}

/// The beginning of an answer in JSON.
const JSON_HEAD: &[u8] = b"{\"config\":[";

//! The messages of the protocol, as far as tests look at them.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Cluster {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "28")]
    pub(crate) alt_stat_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(string, repeated, tag = "10")]
    pub(crate) client_features: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControlPlane {
    #[prost(string, tag = "1")]
    pub(crate) identifier: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SotwRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) node: Option<Node>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) names: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) error: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SotwResponse {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<Any>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) control_plane: Option<ControlPlane>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(string, tag = "2")]
    pub(crate) type_url: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(crate) held: std::collections::BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    pub(crate) nonce: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) error: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Wrapper {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) resource: Option<Any>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaResponse {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<Wrapper>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(string, repeated, tag = "6")]
    pub(crate) removed: Vec<String>,
    #[prost(message, optional, tag = "7")]
    pub(crate) control_plane: Option<ControlPlane>,
}

impl SotwRequest {
    /// The first request of a client that says who it is.
    pub(crate) fn first(type_url: &str, names: &[&str]) -> Self {
        Self {
            node: Some(Node { id: "n".to_owned(), cluster: "edge".to_owned(), ..Node::default() }),
            type_url: type_url.to_owned(),
            names: names.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    /// The answer to a response, with everything as before.
    pub(crate) fn ack(response: &SotwResponse, names: &[&str]) -> Self {
        Self {
            version: response.version.clone(),
            nonce: response.nonce.clone(),
            node: None,
            ..Self::first(&response.type_url, names)
        }
    }
}

impl SotwResponse {
    /// The names of the clusters in it.
    pub(crate) fn clusters(&self) -> Vec<(String, String)> {
        let decode = |any: &Any| Cluster::decode(&*any.value).unwrap();
        let clusters = self.resources.iter().map(decode);
        clusters.map(|cluster| (cluster.name, cluster.alt_stat_name)).collect()
    }
}

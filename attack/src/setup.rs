//! The directory and the flags of the server that an attack is made on.

use crate::wire::CDS;

/// The cluster that innocent clients ask for.
pub(crate) const INNOCENT: &str = "innocent";
/// The file of the cluster that innocent editors change.
pub(crate) const EDITED: &str = "edited.json";

/// The server before it is started.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// True if it is enough to see a bound.
    is_bounded: bool,
    /// The files, by path below the directory.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// The text of `chancery.yaml`, below which the limits are.
    pub(crate) config: String,
    pub(crate) limits: Vec<String>,
    /// The flags; `DIR` stands for the directory in them, and `PORT` for the port of discovery.
    pub(crate) flags: Vec<String>,
    /// The symlinks below the directory, and what they lead to.
    pub(crate) links: Vec<(String, String)>,
    /// The number of descriptors that the process may open.
    pub(crate) descriptors: Option<u32>,
    /// True if nobody reads the log.
    pub(crate) is_log_unread: bool,
    /// True if innocent clients ask for all clusters too, which makes a large response.
    pub(crate) asks_large: bool,
    /// True if the server speaks TLS alone, to clients with a certificate of our authority.
    pub(crate) speaks_tls: bool,
    /// True if no innocent client edits a file: the attack has the whole directory refused.
    pub(crate) edits_wait: bool,
    /// True if no innocent client is there, because the attack is on the start or the end of the
    /// process, or because its limits bind everybody.
    pub(crate) is_alone: bool,
}

impl Setup {
    /// A server without anything but what innocent clients ask for. Attacks make less of everything
    /// if `is_bounded`.
    pub(crate) fn new(is_bounded: bool) -> Self {
        let mut setup = Self { is_bounded, ..Self::default() };
        setup.file("innocent.json", cluster(INNOCENT, 1, 0));
        setup.file(EDITED, cluster("edited", 1, 0));
        setup
    }

    /// The larger number, or the smaller one where it is enough to see a bound.
    pub(crate) const fn scale(&self, whole: usize, bounded: usize) -> usize {
        if self.is_bounded { bounded } else { whole }
    }

    pub(crate) fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push((path.to_owned(), content.into()));
    }

    /// So many clusters of so many bytes each, `c-0` and so on, for every node.
    pub(crate) fn clusters(&mut self, count: usize, bytes: usize) {
        // A process that may use 600 MB reads files of 9 MB by default.
        self.limit("max-file-bytes: 64MiB");
        let all: Vec<_> = (0..count).map(|at| cluster(&format!("c-{at}"), 1, bytes)).collect();
        self.file("clusters.json", format!("[{}]", all.join(",\n")));
    }

    /// Adds a line below `limits` in `chancery.yaml`.
    pub(crate) fn limit(&mut self, line: &str) {
        self.limits.push(line.to_owned());
    }

    /// The text of `chancery.yaml`, if it says anything.
    pub(crate) fn config(&self) -> Option<String> {
        let mut text = self.config.clone();
        if !self.limits.is_empty() {
            text += "limits:\n";
            self.limits.iter().for_each(|line| text += &format!("  {line}\n"));
        }
        (!text.is_empty()).then_some(text)
    }
}

/// A cluster as JSON, with a text of this length in it.
pub(crate) fn cluster(name: &str, seconds: u64, bytes: usize) -> String {
    let filler = "x".repeat(bytes);
    format!(
        "{{\"@type\": \"{CDS}\", \"name\": \"{name}\", \"connectTimeout\": \"{seconds}s\", \
         \"altStatName\": \"{filler}\"}}"
    )
}

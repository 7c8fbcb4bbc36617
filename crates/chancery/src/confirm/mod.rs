//! `chancery confirm`: shows what the gate of a server holds back, and lets it pass.
//!
//! It asks the admin interface of the server on the same machine. Not here: who may ask
//! (`admin::confirm`), and what is held back (`gate`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use chancery_core::printable::Printable;
use clap::Args;

use crate::admin::{CHANGED, CONFIRM, Confirmation, HeldDocument, NOTHING_HELD};
use crate::admin_client::{AdminArgs, AdminClient, Reply, encoded};
use crate::config::Span;
use crate::exit::Failure;
use crate::gate::HeldRow;
use crate::stdout;

/// Let pass what a server holds back, on the same machine
///
/// A server holds back loads that take away much of what nodes have: all listeners, more than half of
/// the clusters, a whole group. The nodes keep what they see until somebody confirms the load. With
/// --list the command shows what waits, and why. docs/gate.md describes what is held back.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct ConfirmArgs {
    /// Confirm everything that is held back
    #[arg(long, conflicts_with = "group", required_unless_present_any = ["group", "list"])]
    all: bool,

    /// Confirm what is held back from the nodes of this group; may be given several times
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,

    /// Show what is held back, and confirm nothing
    #[arg(long)]
    list: bool,

    /// Confirm only if what is held back has this token, which --list and the log of the server show
    #[arg(long, value_name = "TOKEN", conflicts_with = "list")]
    token: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

const AFTER_HELP: &str = "\
Examples:
  chancery confirm --list
  chancery confirm --group edge
  chancery confirm --all --token 8d3c52f1a0b94e67

Exit codes:
  0   what was held back is live; with --list: it was shown, also if it is nothing
  1   nothing is held back there, or it has changed: another token, or while it was confirmed, or
      while a part of it went live; the message says which
  2   the server could not be asked, or refused to answer
  64  the command line is wrong";

/// Runs the command.
pub(crate) fn run(args: &ConfirmArgs) -> Result<(), Failure> {
    let admin = args.admin.client()?;
    let found = document(admin.get(&path(&args.group))?, &admin)?;
    if args.list {
        return stdout::write(listed(&found, args).as_bytes()).map(drop);
    }
    if found.count == 0 {
        return Err(Failure::negative(anyhow!("nothing is held back{}", from(&args.group))));
    }
    let token = args.token.clone().unwrap_or(found.token);
    let confirmation = Confirmation { all: args.all, groups: args.group.clone(), token };
    let confirmation = serde_json::to_string(&confirmation).unwrap_or_default();
    let passed = document(admin.post(CONFIRM, &confirmation)?, &admin)?;
    let text = format!("live now:\n\n{}", rows(&passed, None));
    stdout::write(text.as_bytes()).map(drop)
}

/// The document in the reply, if it is one.
fn document(reply: Reply, admin: &AdminClient) -> Result<HeldDocument, Failure> {
    match reply.error() {
        Some(error) if [NOTHING_HELD, CHANGED].contains(&&*error.code) => {
            Err(Failure::negative(anyhow!("{}", error.message))
                .hint("`chancery confirm --list` shows what is held back now"))
        }
        _ => admin.document(&reply),
    }
}

/// The path with the groups.
fn path(groups: &[String]) -> String {
    let groups = groups.iter().map(|group| format!("group={}", encoded(group)));
    let query = groups.collect::<Vec<_>>().join("&");
    if query.is_empty() { CONFIRM.to_owned() } else { format!("{CONFIRM}?{query}") }
}

fn from(groups: &[String]) -> String {
    match groups {
        [] => String::new(),
        [group] => format!(" from group `{}`", Printable(group)),
        _ => " from these groups".to_owned(),
    }
}

fn listed(found: &HeldDocument, args: &ConfirmArgs) -> String {
    if found.count == 0 {
        return format!("nothing is held back{}\n", from(&args.group));
    }
    let groups: Vec<_> = args.group.iter().map(|it| format!("--group {}", Printable(it))).collect();
    let whom = if groups.is_empty() { "--all".to_owned() } else { groups.join(" ") };
    format!(
        "held back until it is confirmed:\n\n{}\nto let it pass: chancery confirm {whom} --token {}\n",
        rows(found, Some(SystemTime::now())),
        Printable(&found.token)
    )
}

/// The audiences with the reasons, and since when if it is said what time it is.
fn rows(document: &HeldDocument, now: Option<SystemTime>) -> String {
    let mut text = String::new();
    for row in &document.held {
        text += &Printable(&row.audience).to_string();
        text += &now.map(|now| format!(", for {}", age(row, now))).unwrap_or_default();
        text.push('\n');
        for reason in &row.reasons {
            text += &format!("  {}\n", Printable(reason));
        }
        if !row.edits.is_empty() {
            let more = match row.edit_count.saturating_sub(row.edits.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!("  waiting: {}{more}\n", Printable(&row.edits.join(", ")));
        }
    }
    match document.count.saturating_sub(document.held.len()) {
        0 => text,
        more => text + &format!("and {more} more\n"),
    }
}

fn age(row: &HeldRow, now: SystemTime) -> Span {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Span(Duration::from_secs(now.saturating_sub(row.since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_group_is_one_part_of_the_query() {
        let groups = ["edge-1".to_owned(), "a&b=ü/ ".to_owned()];
        let path = path(&groups);
        assert_eq!(path, "/api/v1/confirm?group=edge-1&group=a%26b%3D%C3%BC%2F%20");
        let decoded = chancery_core::percent::decode("a%26b%3D%C3%BC%2F%20").unwrap();
        assert_eq!(decoded, groups[1]);
    }

    #[test]
    fn what_a_server_says_cannot_write_to_the_terminal() {
        let row = HeldRow {
            audience: "group `\u{1b}[2J`".to_owned(),
            group: None,
            node: None,
            reasons: vec!["a\nb".to_owned()],
            edits: vec!["+cds `\n`".to_owned()],
            edit_count: 3,
            since: 100,
            token: String::new(),
        };
        let document = HeldDocument { count: 3, held: vec![row], token: String::new() };
        let now = UNIX_EPOCH + Duration::from_secs(190);
        assert_eq!(
            rows(&document, Some(now)),
            "group `\\u{1b}[2J`, for 1m30s\n  a\\nb\n  waiting: +cds `\\n` and 2 more\nand 2 more\n"
        );
    }
}

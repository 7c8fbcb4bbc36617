//! `chancery get`: asks once, prints the resources that came, and says which did not.
//!
//! Every query is one watch until it is complete. Not here: the common part with `watch`
//! ([`crate::ask`]).

mod options;
mod output;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;

pub(crate) use self::options::GetArgs;
use crate::ask::{self, Answer, QueryPlan, Trouble, plain};
use crate::exit::Failure;

/// Runs the command.
pub(crate) fn run(flags: &GetArgs) -> Result<(), Failure> {
    let plan = Arc::new(QueryPlan::new(&flags.query)?.only_looking());
    output::check(flags.output, &plan.queries)?;
    let runtime = ask::runtime()?;
    let answers = runtime.block_on(answers(&plan))?;
    runtime.shutdown_background();
    let (rows, errors): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
    let found = rows.len();
    if found == 0 && errors.is_empty() {
        // It goes to stderr, because a program may read stdout.
        writeln!(io::stderr(), "no resources").ok();
    }
    if output::write(flags.output, &plan, &rows)? { verdict(&plan, found, &errors) } else { Ok(()) }
}

/// Returns all answers, in the order of the questions, and of names where one has many.
async fn answers(plan: &Arc<QueryPlan>) -> Result<Vec<Answer>, Failure> {
    let client = plan.client()?;
    let answers = ask::answers(plan, &client, &plan.queries).await?;
    if plan.rejects() {
        client.close(LAST_WORD).await;
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Returns a failure unless all resources have come. Each reason is printed once.
fn verdict(plan: &QueryPlan, found: usize, errors: &[Trouble]) -> Result<(), Failure> {
    let failed = errors.iter().any(|trouble| trouble.is_failure);
    let mut texts: Vec<String> = Vec::new();
    for trouble in errors {
        let text = plain(&trouble.text).into_owned();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let failure = if failed { Failure::broken } else { Failure::negative };
    let failure = match texts.as_slice() {
        [] => return Ok(()),
        [one] => failure(anyhow!("{one}")),
        many => {
            let details: String = many.iter().map(|text| format!("{text}\n")).collect();
            let summary = anyhow!("{} of {} did not come", errors.len(), errors.len() + found);
            failure(summary).details(details)
        }
    };
    Err(match texts.iter().find_map(|text| plan.tls_hint(text)) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The time for servers to end their streams when the client is closed.
const LAST_WORD: Duration = Duration::from_secs(2);

//! The program of the example: the words of its command line, and its log on stderr.
#![expect(clippy::print_stderr, reason = "errors are told there")]

use std::env;
use std::error::Error;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let words: Vec<String> = env::args().skip(1).collect();
    match shop::run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut error: &dyn Error = &*error;
            eprint!("shop: {error}");
            while let Some(cause) = error.source() {
                eprint!(": {cause}");
                error = cause;
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

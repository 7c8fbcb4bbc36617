//! The program of the example: the words of its command line, and its log on stderr.

use std::env;
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let words: Vec<String> = env::args().skip(1).collect();
    shop::run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await
}

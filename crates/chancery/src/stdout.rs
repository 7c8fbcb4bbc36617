//! The standard output. A reader that has gone is no failure: whoever ends a pipe has what they
//! want, so the command ends quietly.
//!
//! Not here: the form of the output, which is each command's own.

use std::io::{self, Write};

use anyhow::Context;

use crate::exit::Failure;

/// Writes to the standard output. Returns false if nobody reads any more.
pub(crate) fn write(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Returns the outcome of writing to the standard output, flushed. It is false if nobody reads any
/// more.
pub(crate) fn written(wrote: io::Result<()>) -> Result<bool, Failure> {
    match wrote {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Ok(Err(error).context("cannot write to the standard output")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is_one() {
        assert!(written(Ok(())).unwrap());
        assert!(!written(Err(io::ErrorKind::BrokenPipe.into())).unwrap());
        let full = written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert!(full.to_string().contains("cannot write to the standard output"), "{full}");
    }
}

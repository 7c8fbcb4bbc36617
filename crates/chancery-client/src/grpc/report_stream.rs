//! The stream of load reports to one server. It has a connection of its own, so that errors of
//! discovery do not concern it (C-130).
//!
//! Not here: the decisions when there is a stream and which message comes next, which the machine
//! makes.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_core::client::load::LoadMessage;
use chancery_proto::frames::framed;
use chancery_proto::wire::{decode_load_response, encode_load_report};
use h2::client::SendRequest;
use tokio::time::sleep;

use crate::bootstrap::XdsServer;
use crate::calls::client::{Caller, ResponseReader};
use crate::calls::messages::MessageWriter;
use crate::errors::{error_chain, internal, unavailable};
use crate::options::Options;
use crate::report_driver::ReportDriver;

/// Reports loads to one server.
pub(crate) struct ReportStream {
    caller: Caller,
    driver: Arc<ReportDriver>,
}

const PATH: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// The time for a server to end a stream on which the last report has been sent.
const LAST_WORD: Duration = Duration::from_secs(5);

impl ReportStream {
    pub(crate) fn new(xds: &XdsServer, driver: Arc<ReportDriver>, options: Options) -> Self {
        Self { caller: Caller::new(xds, options), driver }
    }

    /// Serves the streams of this server for as long as the client lives.
    pub(crate) async fn run(self) {
        loop {
            self.driver.due().await;
            let error = self.stream().await;
            self.driver.ended(error);
        }
    }

    async fn stream(&self) -> ErrorDetail {
        let connected = tokio::select! {
            connected = self.caller.connect() => connected,
            () = self.driver.unwanted() => return nobody_reports(),
        };
        let (connection, driver) = match connected {
            Ok(connected) => connected,
            Err(why) => return unavailable(why),
        };
        let driver = pin!(driver);
        tokio::select! {
            error = self.converse(connection.sender()) => error,
            // The reader returns a better error for the end of the connection.
            () = async { driver.await; pending().await } => ErrorDetail::default(),
        }
    }

    async fn converse(&self, sender: SendRequest<Bytes>) -> ErrorDetail {
        let (inbox, out) = match self.caller.open(sender, PATH).await {
            Ok(opened) => opened,
            Err(error) => return error,
        };
        self.driver.opened();
        // If writing stops, either the reader returns the error, or the server has to end the
        // stream that the client has ended.
        let write = async {
            let error = self.write(out).await;
            sleep(LAST_WORD).await;
            error
        };
        tokio::select! {
            biased;
            error = self.read(inbox) => error,
            error = write => error,
        }
    }

    /// Writes reports until the last one is sent, or until the stream takes no more.
    async fn write(&self, mut out: MessageWriter) -> ErrorDetail {
        loop {
            if out.room(1).await.is_none() {
                return unwritable();
            }
            let LoadMessage::Report(report) = self.driver.next().await else {
                out.finish();
                return nobody_reports();
            };
            if out.send(framed(&encode_load_report(&report))).is_err() {
                self.driver.report_unsent(&report);
                return unwritable();
            }
        }
    }

    /// Reads responses until the stream ends, and returns the error with which it does.
    async fn read(&self, mut inbox: ResponseReader) -> ErrorDetail {
        loop {
            let message = match inbox.next().await {
                Ok(message) => message,
                Err(error) => return error,
            };
            match decode_load_response(&message) {
                Ok(answer) => self.driver.answered(answer),
                Err(error) => return internal(error_chain(&error)),
            }
        }
    }
}

fn nobody_reports() -> ErrorDetail {
    ErrorDetail { message: "nobody reports any more".to_owned(), ..ErrorDetail::default() }
}

fn unwritable() -> ErrorDetail {
    unavailable("the stream takes no more reports".to_owned())
}

//! The service of discovery over gRPC, and that of load reports.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, header};
use tonic::Status;

use super::body::StreamBody;
use super::load::{LoadBody, LoadSession};
use super::send_permits::SendPermits;
use super::session::StreamSession;
use super::status::{draining, out_of_memory, too_many_streams};
use crate::activity::RequestContext;
use crate::load_reports::LoadReports;
use crate::request_body::RequestBody;
use crate::routes::StreamRoute;
use crate::server_state::{ServerState, StreamPermit};

/// Opens discovery streams, and those of load reports.
pub(crate) struct StreamService {
    shared: Arc<ServerState>,
    permits: Arc<SendPermits>,
}

impl StreamService {
    pub(crate) fn new(shared: &Arc<ServerState>) -> Self {
        let permits = Arc::new(SendPermits::new(shared.config.limits.max_big_responses));
        Self { shared: Arc::clone(shared), permits }
    }

    /// Opens a discovery stream. The response's body is the stream.
    ///
    /// # Errors
    /// With the status for the client, if it cannot be opened now.
    pub(crate) fn open(
        &self,
        context: &RequestContext,
        route: &StreamRoute,
        request: Request<RequestBody>,
    ) -> Result<Response<StreamBody>, Status> {
        let permit = self.admit(context)?;
        let charge =
            self.shared.charge(&context.share, StreamBody::BYTES).map_err(out_of_memory)?;
        let (variant, only) = (route.variant, route.type_url.clone());
        let session = StreamSession::open(permit, Arc::clone(&context.peer), variant, only);
        let activity = Arc::clone(&context.activity);
        let body = StreamBody::new(
            Arc::clone(&self.permits),
            request.into_body(),
            session,
            activity,
            charge,
        );
        Ok(grpc_response(body))
    }

    /// Opens a stream of load reports. The response's body is the stream.
    ///
    /// # Errors
    /// With the status for the client, if it cannot be opened now.
    pub(crate) fn open_load(
        &self,
        context: &RequestContext,
        reports: &LoadReports,
        request: Request<RequestBody>,
    ) -> Result<Response<LoadBody>, Status> {
        let permit = self.admit(context)?;
        let charge = self.shared.charge(&context.share, LoadBody::BYTES).map_err(out_of_memory)?;
        let session = LoadSession::open(permit, Arc::clone(&context.peer), reports.clone());
        let activity = Arc::clone(&context.activity);
        Ok(grpc_response(LoadBody::new(request.into_body(), session, activity, charge)))
    }

    /// Lets one more stream or call in.
    ///
    /// # Errors
    /// With the status for the client, if there are too many or the connection drains.
    pub(crate) fn admit(&self, context: &RequestContext) -> Result<StreamPermit, Status> {
        if context.activity.is_draining() {
            return Err(draining());
        }
        StreamPermit::take(&self.shared, &context.share).ok_or_else(|| {
            let limit = self.shared.config.limits.max_streams;
            too_many_streams(limit)
        })
    }
}

/// The head of a response over gRPC, with this body.
pub(crate) fn grpc_response<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    response
}

//! Fault injection (C-150). Fields about parts of the calls, as `headers`, are ignored, as gRFC A33 says.

use std::sync::Arc;

use chancery_calls::filters::FilterConfig;
use chancery_calls::filters::faults::{
    AbortSource, AbortStatus, DelaySource, FaultAbort, FaultDelay, FaultPolicy,
};
use chancery_calls::matching::Fraction;
use common::fault_delay::FaultDelaySecifier as Delay;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3 as common;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3 as fault;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use fault::fault_abort::ErrorType;

use super::super::fault::{At, Fault};
use super::super::values;

/// Reads the faults of a listener or a route.
pub(super) fn read(message: fault::HttpFault) -> Result<FilterConfig, Fault> {
    let policy = FaultPolicy {
        delay: message.delay.as_ref().map(delay).transpose().at("delay")?.flatten(),
        abort: message.abort.as_ref().map(abort).transpose().at("abort")?.flatten(),
        max_active: message.max_active_faults.map(|limit| limit.value),
    };
    Ok(FilterConfig::Faults(Arc::new(policy)))
}

fn delay(message: &common::FaultDelay) -> Result<Option<FaultDelay>, Fault> {
    let source = match &message.fault_delay_secifier {
        Some(Delay::FixedDelay(delay)) => {
            DelaySource::Fixed(values::duration(delay).at("fixed_delay")?)
        }
        Some(Delay::HeaderDelay(_)) => DelaySource::Header,
        None => return Ok(None),
    };
    let chance = chance(message.percentage.as_ref())?;
    Ok(Some(FaultDelay { source, chance }))
}

fn abort(message: &fault::FaultAbort) -> Result<Option<FaultAbort>, Fault> {
    let source = match &message.error_type {
        Some(ErrorType::HttpStatus(status)) => {
            let status = AbortStatus::from_http(*status);
            AbortSource::Fixed(status.ok_or("it must be from 200 to 599").at("http_status")?)
        }
        Some(ErrorType::GrpcStatus(status)) => AbortSource::Fixed(AbortStatus::from_grpc(*status)),
        Some(ErrorType::HeaderAbort(_)) => AbortSource::Header,
        None => return Ok(None),
    };
    let chance = chance(message.percentage.as_ref())?;
    Ok(Some(FaultAbort { source, chance }))
}

/// Reads a chance. One that is missing is 0 of 100.
fn chance(message: Option<&FractionalPercent>) -> Result<Fraction, Fault> {
    values::fraction(&message.copied().unwrap_or_default()).at("percentage")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_calls::Code;
    use chancery_calls::matching::Denominator;
    use serde_json::{Value, json};

    use super::super::super::support::{any, filter, listed, override_of};
    use super::*;

    const FAULT: &str = "extensions.filters.http.fault.v3.HTTPFault";

    fn policy(fields: Value) -> FaultPolicy {
        let of_route = override_of(&any(FAULT, fields.clone()));
        let of_listener = listed(&filter("f", "fault.v3.HTTPFault", fields));
        match (of_route, of_listener) {
            (Ok(FilterConfig::Faults(one)), Ok(FilterConfig::Faults(other))) => {
                assert_eq!(one, other);
                FaultPolicy::clone(&one)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn faults_are_read() {
        // gRFC A33
        assert_eq!(policy(json!({})), FaultPolicy::default());
        let rolled = json!({"numerator": 5, "denominator": "MILLION"});
        let fixed = json!({
            "delay": {"fixedDelay": "1.5s", "percentage": rolled},
            "abort": {"grpcStatus": 14},
            "maxActiveFaults": 0,
            "headers": [{"name": "ignored"}],
        });
        let chance = Fraction::new(5, Denominator::Million);
        let source = DelaySource::Fixed(Duration::from_millis(1_500));
        let never = Fraction::new(0, Denominator::Hundred);
        let status = AbortSource::Fixed(AbortStatus::Code(Code::Unavailable));
        assert_eq!(
            policy(fixed),
            FaultPolicy {
                delay: Some(FaultDelay { source, chance }),
                abort: Some(FaultAbort { source: status.clone(), chance: never }),
                max_active: Some(0),
            }
        );
        let by_header = policy(json!({
            "delay": {"headerDelay": {}},
            "abort": {"headerAbort": {}, "percentage": rolled},
        }));
        assert_eq!(
            by_header,
            FaultPolicy {
                delay: Some(FaultDelay { source: DelaySource::Header, chance: never }),
                abort: Some(FaultAbort { source: AbortSource::Header, chance }),
                max_active: None,
            }
        );
        let http = |status: u32| policy(json!({"abort": {"httpStatus": status}})).abort;
        assert_eq!(http(503).map(|it| it.source), Some(status));
        let unknown = AbortSource::Fixed(AbortStatus::Code(Code::Unknown));
        assert_eq!(http(200).map(|it| it.source), Some(unknown));
    }

    #[test]
    fn faults_that_mean_nothing_are_rejected() {
        // gRFC A33
        for (fields, expected) in [
            (
                json!({"abort": {"httpStatus": 100}}),
                "abort.http_status: it must be from 200 to 599",
            ),
            (
                json!({"delay": {"fixedDelay": "-1s"}}),
                "delay.fixed_delay: a duration must be from 0 to 315576000000 seconds",
            ),
        ] {
            let fault = override_of(&any(FAULT, fields)).unwrap_err();
            assert_eq!(fault, format!(".typed_per_filter_config[f].{expected}"));
        }
    }
}

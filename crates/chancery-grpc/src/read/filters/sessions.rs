//! Session affinity by cookie (C-106; gRFC A55).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::filters::FilterConfig;
use chancery_calls::filters::session::SessionCookie;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3 as session;
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use session::stateful_session_per_route::Override;

use super::super::fault::{At, Fault};
use super::super::{opened, values};

/// Reads the sessions of a listener. Without a state there are none.
pub(super) fn read(message: session::StatefulSession) -> Result<FilterConfig, Fault> {
    let Some(state) = &message.session_state else { return Ok(FilterConfig::Disabled) };
    let cookie = state.typed_config.as_ref().and_then(opened::<CookieBasedSessionState>);
    let cookie = cookie.ok_or("it must be a `CookieBasedSessionState`");
    let cookie = cookie.at("session_state.typed_config")?.map_err(Fault::from).and_then(cookie_of);
    Ok(FilterConfig::Session(Arc::new(cookie.at("session_state.typed_config.cookie")?)))
}

/// Reads the sessions of a route.
pub(super) fn of_route(message: session::StatefulSessionPerRoute) -> Result<FilterConfig, Fault> {
    match message.r#override {
        Some(Override::StatefulSession(session)) => read(session).at("stateful_session"),
        Some(Override::Disabled(_)) | None => Ok(FilterConfig::Disabled),
    }
}

fn cookie_of(state: CookieBasedSessionState) -> Result<SessionCookie, Fault> {
    let cookie = state.cookie.ok_or("it must be set")?;
    let ttl = values::some_duration(cookie.ttl.as_ref()).at("ttl")?.unwrap_or(Duration::ZERO);
    Ok(SessionCookie::new(&cookie.name, &cookie.path, ttl).map_err(|it| it.to_string())?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::support::{any, filter, listed, override_of};
    use super::*;

    const PER_ROUTE: &str = "extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";
    const KIND: &str = "stateful_session.v3.StatefulSession";

    /// A state with this cookie.
    fn sessions(cookie: Value) -> Value {
        let state = "extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";
        let state = any(state, json!({"cookie": cookie}));
        json!({"sessionState": {"name": "s", "typedConfig": state}})
    }

    #[test]
    fn a_cookie_has_a_name_a_path_and_a_time() {
        // gRFC A55
        let minute = Duration::from_secs(60);
        for (cookie, expected) in [
            (json!({"name": "c"}), SessionCookie::new("c", "", Duration::ZERO)),
            (
                json!({"name": "c", "path": "/s", "ttl": "60s"}),
                SessionCookie::new("c", "/s", minute),
            ),
        ] {
            let of_listener = listed(&filter("f", KIND, sessions(cookie.clone()))).unwrap();
            let per_route = any(PER_ROUTE, json!({"statefulSession": sessions(cookie)}));
            let of_route = override_of(&per_route).unwrap();
            for config in [of_listener, of_route] {
                let FilterConfig::Session(cookie) = config else { panic!("{config:?}") };
                assert_eq!(Ok(&*cookie), expected.as_ref());
            }
        }
    }

    #[test]
    fn sessions_can_be_off() {
        // gRFC A55
        let listed = listed(&filter("f", KIND, json!({}))).unwrap();
        assert!(matches!(listed, FilterConfig::Disabled));
        for fields in [json!({}), json!({"disabled": true}), json!({"statefulSession": {}})] {
            let config = override_of(&any(PER_ROUTE, fields)).unwrap();
            assert!(matches!(config, FilterConfig::Disabled));
        }
    }

    #[test]
    fn sessions_that_mean_nothing_are_rejected() {
        // gRFC A55
        let unset = json!({"sessionState": {"name": "s", "typedConfig": any("config.cluster.v3.Cluster", json!({}))}});
        let path = "session_state.typed_config";
        for (fields, expected) in [
            (unset, format!("{path}: it must be a `CookieBasedSessionState`")),
            (sessions(json!(null)), format!("{path}.cookie: it must be set")),
            (
                sessions(json!({"name": "c", "ttl": "-1s"})),
                format!("{path}.cookie.ttl: a duration must be from 0 to 315576000000 seconds"),
            ),
        ] {
            let fault = listed(&filter("f", KIND, fields)).unwrap_err();
            assert_eq!(fault, format!("[0].typed_config.{expected}"));
        }
        let nameless = listed(&filter("f", KIND, sessions(json!({"path": "/"})))).unwrap_err();
        assert!(nameless.starts_with(&format!("[0].typed_config.{path}.cookie: ")), "{nameless}");
    }
}

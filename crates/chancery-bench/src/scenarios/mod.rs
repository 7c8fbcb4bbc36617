//! The scenarios: what is done between the first answers of a run and its report.

pub(crate) mod churn;
pub(crate) mod cold_start;
pub(crate) mod fan_out;
pub(crate) mod idle;
pub(crate) mod load_reports;
pub(crate) mod reconnect;

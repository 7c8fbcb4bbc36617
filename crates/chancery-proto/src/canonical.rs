//! One encoding for one content.

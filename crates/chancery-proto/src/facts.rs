//! What the core must know about a body it cannot read.

//! Resources of v3 as v2 clients know them.
